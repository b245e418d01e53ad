"""Results as documents: JSON, tables, and later figures and pages."""
