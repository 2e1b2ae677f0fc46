"""A client's side of the conversation, pure: what it asks for, and what its program is told.

`session` is all of it, `commands` is what goes in and comes out. `seam` joins the past of a subscription to what is live,
`tracked` keeps a reliable one gapless, `merged` puts its streams in one order; `taken` and `inorder` remember what came.
"""
