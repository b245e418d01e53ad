// Search from a folder, without a server: browsers start no workers there, so the search runs in a hidden frame.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.answer = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const page = frame.contentDocument
      page.open()
      page.write(`<script>
        postMessage = answer
        importScripts = (...addresses) => addresses.reduce((before, src) => before.then(() => new Promise(done => {
          document.body.append(Object.assign(document.createElement("script"), { src, onload: done }))
        })), Promise.resolve())
      <\/script><body><script src="${address}"><\/script></body>`)
      page.close()
      this.ready = new Promise(done => frame.addEventListener("load", done))
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {}
  }
  window.IFrameWorker = window.Worker = IFrameWorker
}
