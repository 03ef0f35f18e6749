"""Environments in any language, behind the small HTTP protocol of docs/environments-http.md.

environment  the environment class: what the policy is shown, and what its words do
episode      one episode at the server, made anew if the server lost it
server       requests: what is asked again, and what no answer means
answers      what a server answers, checked
"""
