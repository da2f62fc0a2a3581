//! Headers of a request, for channels and servers.

use std::borrow::Cow;

use http::HeaderMap;
use oxds_core::lb::Headers;

/// Headers of a request, as route matchers read them.
#[derive(Debug, Clone, Copy)]
pub struct RequestHeaders<'a>(pub &'a HeaderMap);

impl Headers for RequestHeaders<'_> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        // gRFC A28: the values of a repeated header are joined with "," before matching (C-225).
        let mut values = self.0.get_all(name).iter().map(|value| value.to_str().ok());
        let first = values.next()??;
        let mut joined = Cow::Borrowed(first);
        for value in values {
            let joined = joined.to_mut();
            joined.push(',');
            joined.push_str(value?);
        }
        Some(joined)
    }
}
