"""The OpenAPI document against the service: whatever fits it, or nearly does, is answered without an error of ours."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from mien.service.models import ProblemDocument

from services import serving


@pytest.mark.parametrize("examples", [15, pytest.param(100, marks=pytest.mark.long)])
def test_nothing_that_the_document_allows_breaks_the_service(people, examples):
    import schemathesis  # here, because it takes a second: other tests need not wait for it

    with serving(people[0]) as address:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        seen = {}
        for operation in schema.get_all_operations():
            _hammer(operation.ok(), address, seen, examples)
    assert len(seen) == 14
    assert all(200 in statuses for label, statuses in seen.items() if label.startswith("GET") and "{" not in label)
    assert any(status == 422 for statuses in seen.values() for status in statuses)


def _hammer(operation, address, seen, examples):
    statuses = seen.setdefault(operation.label, set())

    @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def check(case):
        response = case.call(base_url=address)
        statuses.add(response.status_code)
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            assert response.headers["content-type"] == ["application/problem+json"]
            ProblemDocument.model_validate_json(response.text)

    check()
