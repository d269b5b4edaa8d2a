"""The CJK face that figures use."""
