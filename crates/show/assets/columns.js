// columns
