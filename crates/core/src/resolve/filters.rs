//! HTTP filters of a listener, and the lists that overrides make of them.

use std::sync::Arc;

use crate::resource::{FilterConfig, FilterOverride, FilterOverrides, HttpFilter};

/// HTTP filters of a listener or a filter chain.
#[derive(Debug)]
pub(super) struct FilterLists<'a, F> {
    filters: &'a [HttpFilter],
    /// Makes an element of a list of the filter's name and the configuration that counts.
    make: fn(&Arc<str>, &FilterConfig) -> F,
    /// List without overrides.
    base: Arc<[F]>,
}

impl<'a, F> FilterLists<'a, F> {
    pub(super) fn new(filters: &'a [HttpFilter], make: fn(&Arc<str>, &FilterConfig) -> F) -> Self {
        let base = filters
            .iter()
            .map(|filter| make(&filter.name, &filter.config))
            .collect();
        Self {
            filters,
            make,
            base,
        }
    }

    /// Returns the list with these overrides, the most specific one first.
    pub(super) fn with<const N: usize>(&self, overrides: [&FilterOverrides; N]) -> Arc<[F]> {
        if self.filters.is_empty() || overrides.iter().all(|overrides| overrides.is_empty()) {
            return Arc::clone(&self.base);
        }
        // gRFC A39: weighted cluster, then route, then virtual host, then the listener (C-236).
        let config = |filter: &HttpFilter| {
            let mut found = overrides.iter().filter_map(|one| one.get(&filter.name));
            match found.next() {
                None => Some((self.make)(&filter.name, &filter.config)),
                Some(FilterOverride::Config(config)) => Some((self.make)(&filter.name, config)),
                Some(FilterOverride::Disabled) => None,
            }
        };
        self.filters.iter().filter_map(config).collect()
    }
}
