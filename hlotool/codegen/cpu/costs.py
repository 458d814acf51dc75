"""What work costs on a processor: the numbers that passes and kernels share, by the names that kernels know."""

from __future__ import annotations

from hlotool.analysis.costs import Costs

__all__ = ["COLUMNS_IN_PLACE", "COSTS", "PAGE", "PAGED_ROWS", "ROWS_ALONG", "ROWS_IN_PLACE", "TERMS_IN_PLACE"]

COSTS = Costs()

PAGE = COSTS.page_bytes
ROWS_IN_PLACE = COSTS.rows_in_place
ROWS_ALONG = COSTS.rows_along
PAGED_ROWS = COSTS.paged_rows
COLUMNS_IN_PLACE = COSTS.columns_in_place
TERMS_IN_PLACE = COSTS.terms_in_place
