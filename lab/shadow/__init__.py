"""Recommendations beside an existing controller: records, their log, a report, and event logs."""
