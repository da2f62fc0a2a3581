//! Read of a range in pages, all at one revision.

use bytes::Bytes;
use oxds_types::etcd::{KeyValue, RangeRequest, RangeResponse};

use crate::etcd::keys::KeyRange;

/// Keys of the first page.
const FIRST_PAGE: i64 = 64;
/// Size that a page is to have, in bytes. Pages of several thousand keys of 500 bytes are as fast as one response for all.
const PAGE_SIZE: usize = 4 * 1024 * 1024;
/// Greatest number of keys of a page.
const MAX_PAGE: i64 = 5_000;

/// Pages of a range.
///
/// etcd limits a page by its number of keys only. So pages begin small and grow until they have the wanted size.
#[derive(Debug)]
pub(super) struct Pages {
    range: KeyRange,
    next: Bytes,
    limit: i64,
    /// Revision of all pages, and the cluster. Unknown before the first page, unless the revision is given.
    revision: Option<i64>,
    cluster: Option<u64>,
}

impl Pages {
    /// Makes a read of a range at a revision; without one, at the latest revision.
    pub(super) fn new(range: KeyRange, revision: Option<i64>) -> Self {
        Self {
            next: range.start.clone(),
            range,
            limit: FIRST_PAGE,
            revision,
            cluster: None,
        }
    }

    /// Returns the request for the next page. The first one is linearizable, so it has all that was published before.
    pub(super) fn request(&self) -> RangeRequest {
        RangeRequest {
            key: self.next.clone(),
            range_end: self.range.end.clone(),
            limit: self.limit,
            revision: self.revision.unwrap_or(0),
            ..RangeRequest::default()
        }
    }

    /// Returns cluster and revision of the pages; `None` before the first one.
    pub(super) fn position(&self) -> Option<(u64, i64)> {
        self.cluster.zip(self.revision)
    }

    /// Checks a page. Returns whether it is the last one.
    ///
    /// # Errors
    /// The page contradicts the request or the pages before.
    pub(super) fn take(&mut self, page: &RangeResponse) -> Result<bool, &'static str> {
        let header = page.header.as_ref().ok_or("a page has no header")?;
        if *self.cluster.get_or_insert(header.cluster_id) != header.cluster_id {
            return Err("the pages are of different clusters");
        }
        let revision = *self.revision.get_or_insert(header.revision);
        let mut size = 0;
        for kv in &page.kvs {
            if kv.key < self.next || !self.range.contains(&kv.key) {
                return Err("the keys of a page are not in the requested order");
            }
            if kv.mod_revision > revision {
                return Err("a page has a key of a later revision than requested");
            }
            size += size_of(kv);
            self.next = [&kv.key[..], b"\0"].concat().into();
        }
        if page.more && page.kvs.is_empty() {
            return Err("an empty page is not the last one");
        }
        self.grow(page.kvs.len(), size);
        Ok(!page.more)
    }

    fn grow(&mut self, keys: usize, size: usize) {
        let Some(mean) = size.checked_div(keys) else {
            return;
        };
        let fits = i64::try_from(PAGE_SIZE / mean.max(1)).unwrap_or(MAX_PAGE);
        // Later keys may be larger than those seen so far.
        self.limit = fits.clamp(1, MAX_PAGE).min(self.limit.saturating_mul(16));
    }
}

fn size_of(kv: &KeyValue) -> usize {
    kv.key.len() + kv.value.len()
}
