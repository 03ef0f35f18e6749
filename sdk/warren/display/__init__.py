"""What commands show: live views, tables, summaries."""
