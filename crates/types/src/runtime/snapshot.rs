//! Snapshots: merged layers.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::layer::Layer;
use super::readers::Readers;
use super::value::Value;

/// The merged layers of a runtime. Immutable; clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    merged: Arc<Merged>,
    /// Part of the program that reads, and where its reads are recorded.
    reader: Option<(&'static str, Arc<Readers>)>,
}

#[derive(Debug, Default)]
struct Merged {
    layers: Vec<Layer>,
    /// Index of the layer that decides each key.
    deciding: BTreeMap<String, usize>,
}

/// A key with its final value.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Entry<'a> {
    /// Dotted key.
    pub key: &'a str,
    /// Value of the last layer that has the key.
    pub value: &'a Value,
    /// Layer that has the value.
    pub layer: &'a Layer,
}

impl Snapshot {
    /// Merges layers. The last one that has a key decides its value.
    ///
    /// ```
    /// use oxds_types::runtime::{Layer, Snapshot, Source};
    ///
    /// let key = "envoy.features.enable_all_deprecated_features";
    /// let base = Layer::new("base", Source::Static).with(key, false)?;
    /// let operator = Layer::new("operator", Source::CommandLine).with(key, true)?;
    /// let runtime = Snapshot::from_layers(vec![base, operator]);
    /// assert_eq!(runtime.flag(key), Some(true));
    /// assert_eq!(runtime.flag("unset"), None);
    /// # Ok::<_, oxds_types::runtime::LayerError>(())
    /// ```
    #[must_use]
    pub fn from_layers(layers: Vec<Layer>) -> Self {
        let mut deciding = BTreeMap::new();
        for (index, layer) in layers.iter().enumerate() {
            for key in layer.values().keys() {
                match deciding.get_mut(key) {
                    Some(decides) => *decides = index,
                    None => drop(deciding.insert(key.clone(), index)),
                }
            }
        }
        Self {
            merged: Arc::new(Merged { layers, deciding }),
            reader: None,
        }
    }

    /// Returns a handle whose reads are recorded under this name of a part of the program.
    #[must_use]
    pub fn read_by(&self, reader: &'static str, readers: Arc<Readers>) -> Self {
        Self {
            merged: Arc::clone(&self.merged),
            reader: Some((reader, readers)),
        }
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        if let Some((reader, readers)) = &self.reader {
            readers.record(key, reader);
        }
        let index = *self.merged.deciding.get(key)?;
        self.merged.layers.get(index)?.values().get(key)
    }

    /// Returns the value of a key as a switch. `None` if the key is not set, or has a value that is not a switch
    /// ([`Value::as_flag`]): the default of the caller holds.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_flag()
    }

    /// Returns the layers; later ones win.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.merged.layers
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.merged.deciding.len()
    }

    /// Whether no key is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.merged.deciding.is_empty()
    }

    /// Returns all keys with their final values, sorted by key.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.entries_with("")
    }

    /// Returns the keys that begin with `prefix`, sorted.
    pub fn entries_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = Entry<'a>> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let keys = self.merged.deciding.range::<str, _>(from);
        let keys = keys.take_while(move |(key, _)| key.starts_with(prefix));
        keys.filter_map(|(key, index)| {
            let layer = self.merged.layers.get(*index)?;
            let value = layer.values().get(key)?;
            Some(Entry { key, value, layer })
        })
    }
}

impl PartialEq for Snapshot {
    /// Whether layers and values are the same. Readers do not matter.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.merged, &other.merged) || self.merged.layers == other.merged.layers
    }
}
