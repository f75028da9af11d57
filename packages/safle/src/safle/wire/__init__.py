"""Values <-> bytes: versioned, checked, without pickle; written down in docs/wire-format.md.

A change of the wire begins on that page; the stranger's reader of test_wire_format.py is then
changed by the page, and not by our code. `VERSION` of `container` goes up by one, as it does on the
page, in its example and in CHANGELOG.md. Every content has one encoding: files that lie about what
is new go into ``LIES`` of test_wire_lies.py.
"""
