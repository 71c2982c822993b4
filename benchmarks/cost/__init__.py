"""What one event costs in CPU time, from accepted to settled, with the database server; and where the time goes."""
