"""A post as one line of a dump, in the shape that Arctic Shift publishes: compact JSON, sorted keys, `_meta` first.

The fields are those that every record of 2025-01 has (schema statistics of the archive): what does not vary lies in
`text/constant_fields.json`, the others are filled in from the post. Texts are stored with &, < and > as entities, as
Reddit's API hands them out.
"""

import json
import re
from importlib.resources import files
from typing import Any, Final

from hindcast_dagster.sample.model import Post

_CONSTANT: Final[dict[str, dict[str, Any]]] = json.loads(
    files("hindcast_dagster.sample").joinpath("text", "constant_fields.json").read_text(encoding="utf-8")
)


def line(post: Post) -> bytes:
    """Return the line of a post without its newline."""
    if post.raw is not None:
        return post.raw
    return _encode(record(post))


def record(post: Post) -> dict[str, Any]:
    """Return the record of a post."""
    common = {
        "id": post.id,
        "name": post.key,
        "author": post.author,
        "author_fullname": f"t2_{base36(sum(map(ord, post.author)) * 7_919)}",
        "created": post.created_at,
        "created_utc": post.created_at,
        "edited": post.edited_at if post.edited_at is not None else False,
        "retrieved_on": post.created_at + 17,
        "score": post.score,
        "ups": post.score,
        "subreddit": post.subreddit,
        "subreddit_id": f"t5_{base36(sum(map(ord, post.subreddit)) * 104_729)}",
        "subreddit_name_prefixed": f"r/{post.subreddit}",
        "_meta": _meta(post),
    }
    specific = _submission(post) if post.kind == "submission" else _comment(post)
    return {**specific, **common, **post.overrides}


def _meta(post: Post) -> dict[str, Any]:
    meta: dict[str, Any] = {"retrieved_2nd_on": post.fetched_at}
    if post.flagged_edited or post.edited_at is not None:
        meta["is_edited"] = True
    if post.restored:
        meta["was_initially_deleted"] = True
    if post.deleted_later:
        meta |= {"was_deleted_later": True, "removal_type": "deleted"}
    return meta


def _submission(post: Post) -> dict[str, Any]:
    permalink = f"/r/{post.subreddit}/comments/{post.id}/{_words(post.title)}/"
    is_self = post.url is None and post.crosspost_of is None
    found = _CONSTANT["submission"] | {
        "title": _entities(post.title),
        "selftext": _entities(post.text),
        "num_comments": post.num_comments,
        "is_self": is_self,
        "permalink": permalink,
        "url": post.url or f"https://www.reddit.com{permalink}",
        "domain": f"self.{post.subreddit}" if is_self else "example.org",
    }
    if post.url is not None:
        found |= {"post_hint": "link", "url_overridden_by_dest": post.url}
    if post.crosspost_of is not None:
        nested = record(post.crosspost_of)
        found |= {"crosspost_parent": post.crosspost_of.key, "crosspost_parent_list": [nested], "domain": "reddit.com"}
    return found


def _comment(post: Post) -> dict[str, Any]:
    assert post.link is not None
    assert post.parent is not None
    return _CONSTANT["comment"] | {
        "body": _entities(post.text),
        "is_submitter": post.author == post.link.author,
        "link_id": post.link.key,
        "parent_id": post.parent.key,
        "permalink": f"/r/{post.subreddit}/comments/{post.link.id}/{_words(post.link.title)}/{post.id}/",
    }


def _encode(found: dict[str, Any]) -> bytes:
    try:
        return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half an emoji: only an escape can carry it
        return json.dumps(found, sort_keys=True, separators=(",", ":")).encode()


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _words(title: str) -> str:
    return "_".join(re.findall(r"[a-z0-9]+", title.lower())[:8])


def base36(number: int) -> str:
    """Return a number as Reddit writes its ids."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while number:
        number, last = divmod(number, 36)
        text = digits[last] + text
    return text or "0"
