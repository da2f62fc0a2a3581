//! Read of a range in pages.

use bytes::Bytes;
use oxds_types::etcd::{KeyValue, RangeRequest, RangeResponse};

use crate::etcd::keys::KeyRange;

/// Keys of the first page. Values may have 1.4 MiB, so the first pages must be short.
const FIRST_PAGE: i64 = 64;
/// Size that a page is to have, in bytes. Pages of several thousand keys of 500 bytes are as fast as one response for all.
const PAGE_SIZE: usize = 4 * 1024 * 1024;
/// Greatest number of keys of a page.
const MAX_PAGE: i64 = 5_000;

/// Pages of a range. etcd limits a page by its number of keys only, so pages grow until they have the wanted size.
#[derive(Debug)]
pub(super) struct Pages {
    range: KeyRange,
    next: Bytes,
    limit: i64,
    revision: i64,
}

/// One page.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) kvs: Vec<KeyValue>,
    pub(super) is_last: bool,
}

impl Pages {
    /// Makes a read of a range at a revision. At revision 0, each page is read at the latest revision.
    pub(super) fn new(range: KeyRange, revision: i64) -> Self {
        Self {
            next: range.start.clone(),
            range,
            limit: FIRST_PAGE,
            revision,
        }
    }

    /// Returns the request for the next page.
    pub(super) fn request(&self) -> RangeRequest {
        RangeRequest {
            key: self.next.clone(),
            range_end: self.range.end.clone(),
            limit: self.limit,
            revision: self.revision,
            ..RangeRequest::default()
        }
    }

    /// Returns the keys of a response, and prepares the next request.
    pub(super) fn take(&mut self, response: RangeResponse) -> Page {
        let size = response.kvs.iter().map(|kv| kv.key.len() + kv.value.len());
        let size = size.sum::<usize>().max(1);
        // A page of keys of this size, but at most 4 times as many as before.
        let fitting = response.kvs.len().saturating_mul(PAGE_SIZE) / size;
        let fitting = i64::try_from(fitting).unwrap_or(MAX_PAGE);
        self.limit = fitting.clamp(1, self.limit * 4).min(MAX_PAGE);
        if let Some(last) = response.kvs.last() {
            self.next = [&last.key[..], b"\0"].concat().into();
        }
        Page {
            is_last: !response.more || response.kvs.is_empty(),
            kvs: response.kvs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(len: usize, value: usize, more: bool) -> RangeResponse {
        let kv = |at: usize| KeyValue {
            key: format!("k{at:05}").into(),
            value: vec![0; value].into(),
            ..KeyValue::default()
        };
        RangeResponse {
            kvs: (0..len).map(kv).collect(),
            more,
            ..RangeResponse::default()
        }
    }

    fn pages() -> Pages {
        let (start, end) = ("k".into(), "l".into());
        Pages::new(KeyRange { start, end }, 7)
    }

    #[test]
    fn pages_continue_after_the_last_key_at_one_revision() {
        let mut pages = pages();
        assert!(!pages.take(page(2, 1, true)).is_last);
        let request = pages.request();
        assert_eq!(
            (&request.key[..], &request.range_end[..]),
            (&b"k00001\0"[..], &b"l"[..])
        );
        assert_eq!(request.revision, 7);
        assert!(pages.take(page(0, 0, true)).is_last, "no endless loop");
        assert!(pages.take(page(1, 0, false)).is_last);
    }

    #[test]
    fn pages_grow_with_small_values_and_shrink_with_large_ones() {
        let mut pages = pages();
        let mut limits = vec![];
        for _ in 0..5 {
            pages.take(page(64, 500, true));
            limits.push(pages.request().limit);
        }
        assert_eq!(limits, [256, 1024, 4096, 5000, 5000]);
        pages.take(page(64, 1024 * 1024, true));
        assert_eq!(pages.request().limit, 3);
    }
}
