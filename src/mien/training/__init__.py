"""Fine-tuning an encoder on diagnosed patients: a frozen network gets a new last layer. Needs the extra `train`."""
