"""Commands about models that you train by a loop of your own."""
