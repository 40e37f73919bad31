"""What clients of every service see while processes of the system die."""
