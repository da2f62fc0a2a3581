//! Snapshots: layers as one.
//!
//! A snapshot shares the values of its layers, and no merged copy is made: a read asks the layers from the last to the
//! first, and there are few. So a change costs what it touches, however many keys the other layers have.

use std::cmp::Reverse;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use super::layer::Layer;
use super::readers::Readers;
use super::value::Value;

/// The layers of a runtime as one. Immutable; clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    state: Arc<MergedLayers>,
    /// Part of the program that reads, and where its reads are recorded.
    reader: Option<(&'static str, Arc<Readers>)>,
}

#[derive(Debug, Default)]
struct MergedLayers {
    layers: Vec<Layer>,
    /// Number of different keys.
    keys: usize,
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
    /// Joins layers. The last one that has a key decides its value.
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
        let keys = Merge::of(&layers, Bound::Unbounded).count();
        Self::of(layers, keys)
    }

    fn of(layers: Vec<Layer>, keys: usize) -> Self {
        Self {
            state: Arc::new(MergedLayers { layers, keys }),
            reader: None,
        }
    }

    /// Returns a snapshot in which a layer has another content. `touched` has all keys that may differ, each once; the
    /// others are not looked at.
    pub(super) fn with_layer<'k>(
        &self,
        index: usize,
        layer: Layer,
        touched: impl Iterator<Item = &'k String>,
    ) -> Self {
        let mut layers = self.state.layers.clone();
        let Some(place) = layers.get_mut(index) else {
            return self.clone();
        };
        let before = std::mem::replace(place, layer);
        let mut keys = self.state.keys;
        for key in touched {
            let others = layers.iter().enumerate().filter(|(at, _)| *at != index);
            if has_key(others.map(|(_, layer)| layer), key) {
                continue;
            }
            let now = layers
                .get(index)
                .map(|layer| layer.values().contains_key(key));
            match (before.values().contains_key(key), now == Some(true)) {
                (false, true) => keys += 1,
                (true, false) => keys -= 1,
                _ => {}
            }
        }
        Self::of(layers, keys)
    }

    /// Returns a handle whose reads are recorded under this name of a part of the program.
    #[must_use]
    pub fn read_by(&self, reader: &'static str, readers: Arc<Readers>) -> Self {
        Self {
            state: Arc::clone(&self.state),
            reader: Some((reader, readers)),
        }
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        if let Some((reader, readers)) = &self.reader {
            readers.record(key, reader);
        }
        let mut last_first = self.state.layers.iter().rev();
        last_first.find_map(|layer| layer.values().get(key))
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
        &self.state.layers
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.keys
    }

    /// Whether no key is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.keys == 0
    }

    /// Returns all keys with their final values, sorted by key.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.entries_with("")
    }

    /// Returns the keys that begin with `prefix`, sorted.
    pub fn entries_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = Entry<'a>> {
        self.entries_after(prefix, None)
    }

    /// Returns the keys that begin with `prefix` and come after `after`, sorted. The keys before them are not looked
    /// at.
    pub fn entries_after<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> impl Iterator<Item = Entry<'a>> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        Merge::of(&self.state.layers, from).take_while(move |entry| entry.key.starts_with(prefix))
    }
}

fn has_key<'l>(mut layers: impl Iterator<Item = &'l Layer>, key: &str) -> bool {
    layers.any(|layer| layer.values().contains_key(key))
}

type Values<'a> = std::collections::btree_map::Range<'a, String, Value>;

/// The keys of all layers in order, each with the value of the last layer that has it.
struct Merge<'a> {
    /// The keys of each layer that are left; later layers win.
    sources: Vec<(&'a Layer, Peekable<Values<'a>>)>,
}

impl<'a> Merge<'a> {
    fn of(layers: &'a [Layer], from: Bound<&str>) -> Self {
        let sources = layers.iter().map(|layer| {
            let values = layer.values().range::<str, _>((from, Bound::Unbounded));
            (layer, values.peekable())
        });
        Self {
            sources: sources.collect(),
        }
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let heads = self.sources.iter_mut().enumerate();
        let heads = heads.filter_map(|(at, (layer, values))| {
            let (key, value) = *values.peek()?;
            Some((key, Reverse(at), value, &**layer))
        });
        let (key, _, value, layer) = heads.min_by_key(|(key, at, ..)| (*key, *at))?;
        for (_, values) in &mut self.sources {
            values.next_if(|(other, _)| *other == key);
        }
        Some(Entry { key, value, layer })
    }
}

impl PartialEq for Snapshot {
    /// Whether layers and values are the same. Readers do not matter.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state) || self.state.layers == other.state.layers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{MAX_KEYS, Runtime, Source};

    fn layer(name: &str, keys: &[&str]) -> Layer {
        let empty = Layer::new(name, Source::Static);
        let all = keys.iter();
        all.fold(empty, |layer, key| layer.with(*key, true).unwrap())
    }

    fn shown<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Vec<String> {
        let shown = entries.map(|entry| format!("{} {}", entry.key, entry.layer.name()));
        shown.collect()
    }

    /// Given overlapping layers, then the keys come in order, each once, from the last layer that has it, and a page
    /// begins after the last one.
    #[test]
    fn v47_keys_of_all_layers_come_in_order() {
        let layers = vec![
            layer("one", &["a", "b.x", "b.z", "d"]),
            layer("two", &["b.y", "b.z"]),
            layer("three", &["a", "c"]),
        ];
        let snapshot = Snapshot::from_layers(layers);
        let all = [
            "a three", "b.x one", "b.y two", "b.z two", "c three", "d one",
        ];
        assert_eq!(shown(snapshot.entries()), all);
        assert_eq!(snapshot.len(), all.len());
        assert_eq!(shown(snapshot.entries_with("b.")), all[1..4]);
        let after =
            |prefix: &'static str, after| shown(snapshot.entries_after(prefix, Some(after)));
        assert_eq!(after("b.", "b.x"), all[2..4]);
        assert_eq!(after("b.", "a"), all[1..4]);
        assert_eq!(after("", "c"), all[5..]);
        assert_eq!(after("b.", "c"), [""; 0]);
    }

    /// Given changes of one layer, then the number of keys is that of a snapshot that is made from all layers.
    #[test]
    fn v47_number_of_keys_follows_changes() {
        let admin = Layer::new("admin", Source::Admin);
        let runtime = Runtime::new(vec![layer("disk", &["a", "b"]), admin]).unwrap();
        let check = |expected: usize| {
            let snapshot = runtime.snapshot();
            let from_all = Snapshot::from_layers(snapshot.layers().to_vec());
            assert_eq!((snapshot.len(), from_all.len()), (expected, expected));
        };
        let set = |key: &str| (key.to_owned(), Some(Value::Bool(false)));
        let remove = |key: &str| (key.to_owned(), None);
        runtime.modify([set("b"), set("c"), set("c")]).unwrap();
        check(3);
        runtime.replace(layer("disk", &["c", "d"])).unwrap();
        check(3);
        runtime
            .modify([remove("b"), remove("c"), remove("none")])
            .unwrap();
        check(2);
        runtime.modify([set("x"), remove("x")]).unwrap();
        check(2);
    }

    /// Given a million keys in ten layers, when one key of the admin layer changes, then what is allocated does not
    /// depend on the other layers: they are shared with the snapshot before.
    #[test]
    fn v47_change_of_one_key_touches_no_other_layer() {
        let large = (0..10).map(|number| {
            let mut layer = Layer::new(number.to_string(), Source::Static);
            for key in 0..MAX_KEYS {
                layer
                    .set(format!("{number}.{key}"), Value::Bool(true))
                    .unwrap();
            }
            layer
        });
        let admin = Layer::new("admin", Source::Admin);
        let runtime = Runtime::new(large.chain([admin]).collect()).unwrap();
        assert_eq!(runtime.counts().num_keys, 10 * MAX_KEYS);
        for (key, count) in [("0.1", 10 * MAX_KEYS), ("new", 10 * MAX_KEYS + 1)] {
            let change = (key.to_owned(), Some(Value::Bool(false)));
            let measured = allocation_counter::measure(|| runtime.modify([change]).unwrap());
            assert!(measured.count_total <= 20, "{measured:?}");
            assert!(measured.bytes_total <= 4096, "{measured:?}");
            assert_eq!(runtime.snapshot().flag(key), Some(false));
            assert_eq!(runtime.counts().num_keys, count);
        }
    }
}
