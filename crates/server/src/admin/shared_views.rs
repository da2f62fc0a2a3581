//! Views of the HTTP port: each is made at most every 100 ms, and shared by all requests in that time.
//!
//! ```text
//!   request ─▶ made within 100 ms, of the present state, and not what the client has? ── yes ─▶ shared
//!      ▲          │ no
//!      │          ▼
//!      │       it, or eight others, made within 100 ms? ── no ─▶ make it; one at a time
//!      │          │ yes
//!      └── wait ◀─┘
//! ```
//! With thousands of clients the state changes thousands of times per second, and each change ends the long polls of
//! all readers. So the number of views that are made follows the time, however often the state changes, and however
//! often readers ask.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Time in which a view is made once: short for a person, and for a program that waits for a rollout.
const PACE: Duration = Duration::from_millis(100);
/// Views that are made in this time. Each takes up to 10 ms with 10,000 clients; a reader of all their pages gets 80
/// per second.
const MOST: usize = 8;

/// Shares the views of the latest time.
#[derive(Debug, Default)]
pub(crate) struct SharedViews(Mutex<Recent>);

/// The views of the last [`PACE`].
#[derive(Debug, Default)]
struct Recent {
    /// When views were begun, the oldest first. A view whose reader has left counts, too.
    begun: Vec<Instant>,
    /// By path and query.
    views: HashMap<String, View>,
}

/// A response that several requests get.
#[derive(Debug)]
struct View {
    made: Instant,
    /// Tag of the state before it was made.
    tag: String,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl SharedViews {
    /// Returns the view of a path and query, of the present state. `known` is the `ETag` that the client has: it does
    /// not get the same again before another one could be made. `tag` returns the tag of the present state.
    /// Cancel-safe.
    pub(super) async fn get(
        &self,
        key: &str,
        known: Option<&HeaderValue>,
        tag: impl Fn() -> String,
        make: impl Future<Output = Response>,
    ) -> Response {
        loop {
            let mut recent = self.0.lock().await;
            let now = Instant::now();
            recent.forget_before(now);
            if let Some(view) = recent.views.get(key)
                && view.tag == tag()
                && (known.is_none() || view.headers.get(header::ETAG) != known)
            {
                return view.response();
            }
            if let Some(due) = recent.due(key) {
                drop(recent);
                tokio::time::sleep_until(due).await;
                continue;
            }
            recent.begun.push(now);
            let tag = tag();
            let (parts, body) = make.await.into_parts();
            // Our own bodies are in memory: reading them does not fail.
            let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
            let view = View {
                made: now,
                tag,
                status: parts.status,
                headers: parts.headers,
                body,
            };
            let response = view.response();
            recent.views.insert(key.to_owned(), view);
            return response;
        }
    }
}

impl Recent {
    fn forget_before(&mut self, now: Instant) {
        let is_recent = |made: Instant| now.saturating_duration_since(made) < PACE;
        self.begun.retain(|begun| is_recent(*begun));
        self.views.retain(|_, view| is_recent(view.made));
    }

    /// Returns the time until which no view of this key is made; `None`: it can be made now.
    fn due(&self, key: &str) -> Option<Instant> {
        let own = self.views.get(key).map(|view| view.made + PACE);
        let is_full = self.begun.len() >= MOST;
        let oldest = self.begun.first().filter(|_| is_full);
        own.max(oldest.map(|begun| *begun + PACE))
    }
}

impl View {
    fn response(&self) -> Response {
        let mut response = (self.status, Body::from(self.body.clone())).into_response();
        *response.headers_mut() = self.headers.clone();
        response
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A state with a tag, and the number of views that were made of it.
    #[derive(Default)]
    struct Counted {
        views: SharedViews,
        state: Cell<usize>,
        made: Cell<usize>,
    }

    impl Counted {
        /// Returns the body of a view: the state that it shows.
        async fn get(&self, key: &str, known: Option<&str>) -> usize {
            let known = known.map(|known| HeaderValue::from_str(known).unwrap());
            let make = async {
                self.made.set(self.made.get() + 1);
                let tag = self.state.get().to_string();
                ([(header::ETAG, tag.clone())], tag).into_response()
            };
            let tag = || self.state.get().to_string();
            let response = self.views.get(key, known.as_ref(), tag, make).await;
            let body = to_bytes(response.into_body(), 100).await.unwrap();
            String::from_utf8(body.into()).unwrap().parse().unwrap()
        }
    }

    /// Given a state that changes all the time and a reader that asks without a pause, then ten views per second are
    /// made, and each is of the state at the time of its request, or later.
    #[tokio::test(start_paused = true)]
    async fn view_is_made_once_in_100_ms_whatever_changes() {
        let counted = Counted::default();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            let state = counted.state.get() + 1;
            counted.state.set(state);
            assert!(counted.get("/", None).await >= state);
        }
        assert_eq!(counted.made.get(), 11);
    }

    /// Given many readers at once, then they share one view, before and after a change.
    #[tokio::test(start_paused = true)]
    async fn readers_of_one_view_share_it() {
        let counted = Counted::default();
        for state in 0..3 {
            counted.state.set(state);
            let readers = (0..1_000).map(|_| counted.get("/status.json", None));
            let found = futures_util::future::join_all(readers).await;
            assert!(found.iter().all(|found| *found == state), "{found:?}");
            assert_eq!(counted.made.get(), state + 1);
        }
    }

    /// Given a reader that asks for another view each time, then eight are made in 100 ms.
    #[tokio::test(start_paused = true)]
    async fn views_of_all_keys_are_bounded() {
        let counted = Counted::default();
        let begun = Instant::now();
        for number in 0..80 {
            counted.get(&format!("/?{number}"), None).await;
        }
        assert_eq!(counted.made.get(), 80);
        assert_eq!(begun.elapsed().as_millis() / 100, 9);
        assert!(counted.views.0.lock().await.views.len() <= MOST);
    }

    /// Given a reader that leaves while its view is made, then the view counts.
    #[tokio::test(start_paused = true)]
    async fn view_counts_although_its_reader_left() {
        let views = SharedViews::default();
        let begun = Instant::now();
        for _ in 0..MOST {
            let make = std::future::pending();
            let get = views.get("/graph", None, String::new, make);
            let left = tokio::time::timeout(Duration::from_millis(1), get).await;
            assert!(left.is_err());
        }
        let make = std::future::ready(().into_response());
        views.get("/", None, String::new, make).await;
        assert!(begun.elapsed() >= PACE);
    }

    /// Given a reader that has the view, when it asks again although the view has an older tag than the state, then it
    /// does not get the same again at once.
    #[tokio::test(start_paused = true)]
    async fn reader_that_has_the_view_waits_for_another_one() {
        let counted = Counted::default();
        counted.state.set(7);
        let begun = Instant::now();
        assert_eq!(counted.get("/", None).await, 7);
        assert_eq!(counted.get("/", Some("6")).await, 7);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(counted.get("/", Some("7")).await, 7);
        assert_eq!(begun.elapsed().as_millis() / 100, 1);
        assert_eq!(counted.made.get(), 2);
    }
}
