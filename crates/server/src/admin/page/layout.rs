//! The frame of every view: head with style and script, navigation, and the headers that keep browsers from anything
//! else.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::parts::{count, shown};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Only the style and the script of this build run, by their hashes; the page loads nothing but itself (CSP level 3).
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// An icon without a request.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='4' fill='%232f6feb'/%3E%3Cpath d='M4 8h8M8 4v8' stroke='white' stroke-width='2'/%3E%3C/svg%3E";

/// A view: its place in the navigation, its title, and its content.
#[derive(Debug)]
pub(super) struct View {
    pub(super) section: Section,
    pub(super) title: String,
    pub(super) content: Markup,
}

/// Entries of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Clients,
    Resources,
    Graph,
    History,
}

impl Section {
    const ALL: [(Self, &str, &str); 5] = [
        (Self::Overview, "/", "Overview"),
        (Self::Clients, "/clients", "Clients"),
        (Self::Resources, "/resources", "Resources"),
        (Self::Graph, "/graph", "Graph"),
        (Self::History, "/history", "History"),
    ];
}

/// The line about the server in the head of every view.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) identifier: String,
    /// Why the server is not ready, or what it serves besides the current state; empty if all is well.
    pub(super) notice: String,
    pub(super) errors: usize,
    pub(super) nacking: usize,
}

/// Returns the whole page of a view.
pub(super) fn page(head: &Head, view: &View, tag: HeaderValue) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (view.title) " · oxds" }
                link rel="icon" href=(ICON);
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header {
                    a.brand href="/" { "oxds" }
                    nav aria-label="Views" {
                        @for (section, path, title) in Section::ALL {
                            @let here = (section == view.section).then_some("page");
                            a href=(path) aria-current=[here] { (title) }
                        }
                    }
                    div.server {
                        span #live role="status" title="Updates" { "snapshot" }
                        span { (shown(&head.identifier)) }
                    }
                }
                main #main tabindex="-1" {
                    @if !head.notice.is_empty() { p.notice role="alert" { (head.notice) } }
                    (view.content)
                }
                footer {
                    span { "oxds " (env!("CARGO_PKG_VERSION")) }
                    span #alarm aria-live="polite" {
                        (count(head.errors, "store error")) ", " (count(head.nacking, "client")) " NACKing"
                    }
                    a href="/status.json" { "status.json" }
                    a href="/metrics" { "metrics" }
                    a href="/deprecations.json" { "deprecations" }
                    a href="/runtime" { "runtime" }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    let mut response = markup.into_string().into_response();
    set(
        &mut response,
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    set(&mut response, header::ETAG, tag);
    secure(&mut response);
    response
}

/// Returns the page of a thing that does not exist, with its status.
pub(super) fn missing(title: &str, text: &str) -> (StatusCode, View) {
    let content = html! {
        h1 { (title) }
        p { (text) }
    };
    let view = View {
        section: Section::Overview,
        title: title.to_owned(),
        content,
    };
    (StatusCode::NOT_FOUND, view)
}

fn secure(response: &mut Response) {
    set(response, header::CONTENT_SECURITY_POLICY, POLICY.clone());
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        set(response, name, HeaderValue::from_static(value));
    }
}

fn set(response: &mut Response, name: HeaderName, value: HeaderValue) {
    response.headers_mut().insert(name, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given the style and the script as they stand in the page, then they cannot end their elements, and load nothing.
    #[test]
    fn page_assets_stay_in_their_elements() {
        assert!(!STYLE.contains("</") && !STYLE.contains("url(") && !STYLE.contains("@import"));
        assert!(!SCRIPT.contains("</") && !SCRIPT.contains("http"));
        let policy = POLICY.to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
