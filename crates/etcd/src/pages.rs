//! Read of a range in pages, each checked against the request and the pages before.

use bytes::Bytes;
use oxds_types::etcd::{KeyValue, RangeRequest, RangeResponse};

use super::keys::KeyRange;

/// Keys of the first page. Values may have 1.4 MiB, so the first pages must be short.
const FIRST_PAGE: i64 = 64;
/// Size that a page is to have, in bytes. For each page, etcd looks at all keys that follow, also at those that were
/// deleted and are not compacted: 60 to 100 ms after a stage of 100,000 keys. So pages must be few.
const PAGE_SIZE: usize = 8 * 1024 * 1024;
/// Greatest number of keys of a page.
const MAX_PAGE: i64 = 50_000;
/// Greatest growth from one page to the next, and the shrinking after a page that was too large.
const STEP: i64 = 8;

/// Revision of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadAt {
    /// The latest revision at the first page, for all pages.
    First,
    /// This revision.
    Revision(i64),
    /// The latest revision at each page. Only for keys that are never written again, and deleted only after they were
    /// read.
    Latest,
}

/// Pages of a range.
///
/// etcd limits a page by its number of keys only. So pages begin small and grow until they have the wanted size. Where
/// larger values follow, a page may be larger than the client accepts; then fewer keys are read. With each such page,
/// the greatest number of keys is halved, so a range with small and large values in turns has few of them.
#[derive(Debug)]
pub(super) struct Pages {
    range: KeyRange,
    next: Bytes,
    limit: i64,
    /// Greatest number of keys of the next pages.
    most: i64,
    at: ReadAt,
    /// Cluster and revision of the latest page. Unknown before the first page.
    seen: Option<(u64, i64)>,
    is_complete: bool,
}

impl Pages {
    pub(super) fn new(range: KeyRange, at: ReadAt) -> Self {
        Self {
            next: range.start.clone(),
            range,
            limit: FIRST_PAGE,
            most: MAX_PAGE,
            at,
            seen: None,
            is_complete: false,
        }
    }

    /// Returns the request for the next page. A page at the latest revision is read linearizably, so it has all that
    /// was published before.
    pub(super) fn request(&self) -> RangeRequest {
        let revision = match self.at {
            ReadAt::Revision(revision) => revision,
            ReadAt::First | ReadAt::Latest => 0,
        };
        RangeRequest {
            key: self.next.clone(),
            range_end: self.range.end.clone(),
            limit: self.limit,
            revision,
            ..RangeRequest::default()
        }
    }

    /// Returns cluster and revision of the pages; `None` before the first one.
    pub(super) fn position(&self) -> Option<(u64, i64)> {
        let (cluster, revision) = self.seen?;
        match self.at {
            ReadAt::Revision(fixed) => Some((cluster, fixed)),
            ReadAt::First | ReadAt::Latest => Some((cluster, revision)),
        }
    }

    /// Returns whether all pages were read.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Checks a page, and prepares the request for the next one.
    ///
    /// # Errors
    /// The page contradicts the request or the pages before: keys may be missing.
    pub(super) fn take(&mut self, page: &RangeResponse) -> Result<(), &'static str> {
        let header = page.header.as_ref().ok_or("a page has no header")?;
        if self
            .seen
            .is_some_and(|(cluster, _)| cluster != header.cluster_id)
        {
            return Err("the pages are of different clusters");
        }
        let least = self.seen.map_or(0, |(_, revision)| revision);
        let (revision, least) = match self.at {
            ReadAt::Revision(revision) => (revision, revision),
            ReadAt::First | ReadAt::Latest => (header.revision, least),
        };
        if header.revision < least {
            return Err("a page is of an earlier revision than requested");
        }
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
        self.seen = Some((header.cluster_id, revision));
        if self.at == ReadAt::First {
            self.at = ReadAt::Revision(revision);
        }
        self.grow(page.kvs.len(), size);
        self.is_complete = !page.more;
        Ok(())
    }

    /// Prepares a request for fewer keys, because the client does not accept a response of this size. Returns whether
    /// there is one.
    pub(super) fn shrink(&mut self) -> bool {
        let before = self.limit;
        self.limit = (before / STEP).max(1);
        self.most = (self.most / 2).max(self.limit);
        self.limit < before
    }

    /// Requests a page of keys of this size, but only a few times as many as before: later keys may be larger.
    fn grow(&mut self, keys: usize, size: usize) {
        let Some(mean) = size.checked_div(keys) else {
            return;
        };
        let fits = i64::try_from(PAGE_SIZE / mean.max(1)).unwrap_or(MAX_PAGE);
        self.limit = fits
            .clamp(1, self.most)
            .min(self.limit.saturating_mul(STEP));
    }
}

fn size_of(kv: &KeyValue) -> usize {
    kv.key.len() + kv.value.len()
}

#[cfg(test)]
mod tests;
