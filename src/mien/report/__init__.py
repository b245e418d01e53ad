"""Results as documents: JSON, tables, figures and pages."""
