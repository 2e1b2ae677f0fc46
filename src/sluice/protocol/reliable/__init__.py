"""Nothing missing, nothing twice: reliable delivery over redundant paths, without any agreement between them (Gryphon).

`subscribers` is the subscriber's broker: it puts each stream together again and delivers it gapless. `source` is the
publisher's broker: it knows how far everybody is. `relay` is every broker between them: it leaves out what nobody behind it
wants, and only where it knows enough to tell. `moments` says up to where all streams have come, for those who want them in one
order; `reliable` is what a broker does about all of it.
"""
