"""The store on PostgreSQL: any number of processes side by side."""
