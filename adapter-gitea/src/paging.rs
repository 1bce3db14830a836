//! Paging over servers that clamp a page silently and count rows that they do not show.
//!
//! `[api] MAX_RESPONSE_ITEMS` may be below what is asked for, and `X-Total-Count` may be above what can be seen
//! (sourcebot#1130): the end is an empty page, a page with nothing new, or a `Link` without a next one, and there is a
//! cap in any case.

/// Most pages that one call reads.
pub(crate) const MAX_PAGES: u32 = 6;

/// What the headers of a page say about pages after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PageHeaders<'a> {
    pub(crate) link: Option<&'a str>,
    pub(crate) total: Option<u64>,
}

impl PageHeaders<'_> {
    /// Whether rows may follow the `seen` ones. Only the relation in `Link` is used and never its address, which holds
    /// the server's own idea of its name.
    pub(crate) fn may_continue(self, seen: usize) -> bool {
        match (self.link, self.total) {
            (Some(link), _) => names_next(link),
            (None, Some(total)) => total > seen as u64,
            // A proxy may drop both. An empty page will tell.
            (None, None) => true,
        }
    }
}

fn names_next(link: &str) -> bool {
    link.split(',').any(|part| {
        part.split(';').skip(1).any(|parameter| {
            let parameter = parameter.trim();
            parameter == "rel=\"next\"" || parameter == "rel=next"
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: GT-07
    #[test]
    fn a_link_outranks_a_count_and_nothing_at_all_means_ask() {
        let next = Some(r#"<https://other.example/api?page=2>; rel="next",<https://x/?page=9>; rel="last""#);
        let last = Some(r#"<https://other.example/api?page=1>; rel="first""#);
        for (link, total, wanted) in [
            (next, Some(3), true),
            (last, Some(900), false),
            (None, Some(900), true),
            (None, Some(3), false),
            (None, None, true),
            (Some("<x>"), None, false),
        ] {
            assert_eq!(PageHeaders { link, total }.may_continue(3), wanted, "{link:?} {total:?}");
        }
    }
}
