"""What hakmem shows of running processes and of their profiles, read from outside."""
