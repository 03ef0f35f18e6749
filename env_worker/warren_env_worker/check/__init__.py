"""`warren env check`: does an environment keep what `warren.environment` asks of it?"""
