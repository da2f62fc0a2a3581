//! The request that an explanation is about.

use std::borrow::Cow;

use serde::Serialize;

use crate::lb::Headers;

/// A request: what routes can see of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Request {
    /// HTTP method.
    pub method: String,
    /// Path, with the query string if there is one.
    pub path: String,
    /// Authority: `:authority`, or `Host`.
    pub authority: String,
    /// Headers, in order, with names in lower case and without pseudo-headers.
    pub headers: Vec<(String, String)>,
    /// Filter chain of the listener that the connection has; needed only if several chains have routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_chain: Option<String>,
}

impl Request {
    /// Makes an RPC: `POST`, with the headers that every gRPC client sends.
    #[must_use]
    pub fn grpc(path: impl Into<String>, authority: impl Into<String>) -> Self {
        Self::http("POST", path, authority)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
    }

    /// Makes an HTTP request without headers.
    #[must_use]
    pub fn http(
        method: impl Into<String>,
        path: impl Into<String>,
        authority: impl Into<String>,
    ) -> Self {
        Self {
            method: method.into(),
            path: path.into(),
            authority: authority.into(),
            headers: Vec::new(),
            filter_chain: None,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.into()));
        self
    }

    /// Returns the path without the query string.
    #[must_use]
    pub fn path_only(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// Returns the query string, if there is one.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.path.split_once('?').map(|(_, query)| query)
    }
}

impl Headers for Request {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut values = self.headers.iter().filter(|(own, _)| own == name);
        let mut joined = Cow::Borrowed(values.next()?.1.as_str());
        // gRFC A28: the values of a repeated header are joined with "," before matching (C-225). So does Envoy.
        for (_, value) in values {
            let joined = joined.to_mut();
            joined.push(',');
            joined.push_str(value);
        }
        Some(joined)
    }
}
