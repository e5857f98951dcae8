"""The Laboratory: measures allocators side by side and says how sure it is."""
