//! A pair: an element of the old tree and its successor.

/// Change of identity of an element that both trees contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The name (and number) is unchanged. The scope may have a new name.
    Kept,
    /// The name changed. Members keep their number, declarations keep their members.
    Renamed,
    /// The number changed, the name did not.
    Renumbered,
    /// A field with another name and another type has the same number.
    Replaced,
}

/// Element in the old tree and in the new tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pair<T> {
    /// Only the old tree contains it.
    Removed(T),
    /// Only the new tree contains it.
    Added(T),
    /// Both trees contain it.
    Both {
        /// Element of the old tree.
        old: T,
        /// Element of the new tree.
        new: T,
        /// Change of its identity.
        fate: Fate,
    },
}

impl<T: Copy> Pair<T> {
    /// Returns the old element.
    pub fn before(&self) -> Option<T> {
        match *self {
            Pair::Removed(old) | Pair::Both { old, .. } => Some(old),
            Pair::Added(_) => None,
        }
    }

    /// Returns the new element.
    pub fn after(&self) -> Option<T> {
        match *self {
            Pair::Added(new) | Pair::Both { new, .. } => Some(new),
            Pair::Removed(_) => None,
        }
    }

    /// Returns both elements, if both trees contain it.
    pub fn both(&self) -> Option<(T, T)> {
        match *self {
            Pair::Both { old, new, .. } => Some((old, new)),
            _ => None,
        }
    }
}

/// Member (field, oneof, value, method) of an element that both trees contain.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a, O, T> {
    /// Owner in the old tree.
    pub old_owner: &'a O,
    /// Owner in the new tree.
    pub new_owner: &'a O,
    /// Pair of the member.
    pub pair: Pair<&'a T>,
}
