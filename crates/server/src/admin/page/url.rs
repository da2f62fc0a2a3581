//! Queries of the page's addresses: read from requests, and written into links.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters of a value that a URL may have as they are.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b':')
    .remove(b'/');
/// Longest value in bytes that is used: longer names are not accepted from clients either.
const MAX_VALUE: usize = 4096;

/// The parameters of a request. Unknown ones are ignored, so that an old link leads somewhere.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the query of a URL, as forms write it.
    pub(super) fn parse(query: &str) -> Self {
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8_lossy().into_owned()
        };
        let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
        let parameters = parameters.map(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            (decode(name), decode(value))
        });
        let usable = parameters.filter(|(_, value)| value.len() <= MAX_VALUE);
        Self(usable.collect())
    }

    /// Returns the value of a parameter; empty without one.
    pub(super) fn get(&self, name: &str) -> &str {
        let mut values = self.0.iter().filter(|(of, _)| of == name);
        values.next().map_or("", |(_, value)| value)
    }

    /// Returns the number of the page, from 0.
    pub(super) fn page(&self) -> usize {
        self.get("page").parse::<usize>().unwrap_or(1).max(1) - 1
    }
}

/// Returns the address of a path with parameters; empty ones are left out.
pub(super) fn url(path: &str, parameters: &[(&str, &str)]) -> String {
    let used = parameters.iter().filter(|(_, value)| !value.is_empty());
    let mut url = path.to_owned();
    for (at, (name, value)) in used.enumerate() {
        url.push(if at == 0 { '?' } else { '&' });
        url.push_str(name);
        url.push('=');
        url.extend(utf8_percent_encode(value, PLAIN));
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_links_keep_hostile_names() {
        for name in ["a&b=c", "<script>", "\" onload=\"", "ü %20+?#/", "'"] {
            let url = url(
                "/resource",
                &[("type", "cds"), ("none", ""), ("name", name)],
            );
            let (path, query) = url.split_once('?').unwrap();
            assert_eq!(path, "/resource");
            assert!(!url.contains(['<', '"', '\'', ' ']), "{url}");
            let query = Query::parse(query);
            assert_eq!((query.get("type"), query.get("name")), ("cds", name));
        }
        assert_eq!(url("/", &[]), "/");
    }

    #[test]
    fn page_number_from_a_link_is_never_below_the_first() {
        for (query, page) in [
            ("", 0),
            ("page=1", 0),
            ("page=3", 2),
            ("page=0", 0),
            ("page=x", 0),
        ] {
            assert_eq!(Query::parse(query).page(), page, "{query}");
        }
    }
}
