//! An element of the old tree beside the one it became.

/// What became of an element that is in both trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Same name (and number). What encloses it may have another name.
    Kept,
    /// Another name: members keep their number, declarations their members.
    Renamed,
    /// Same name, another number.
    Renumbered,
    /// A field with another name and another type on the same number.
    Replaced,
}

/// An element, in the old tree and in the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pair<T> {
    /// Only the old tree has it.
    Removed(T),
    /// Only the new tree has it.
    Added(T),
    /// Both have it.
    Both {
        /// As it was.
        old: T,
        /// As it is.
        new: T,
        /// What changed in its identity.
        fate: Fate,
    },
}

impl<T: Copy> Pair<T> {
    /// As it was.
    pub fn was(&self) -> Option<T> {
        match *self {
            Pair::Removed(old) | Pair::Both { old, .. } => Some(old),
            Pair::Added(_) => None,
        }
    }

    /// As it is.
    pub fn is(&self) -> Option<T> {
        match *self {
            Pair::Added(new) | Pair::Both { new, .. } => Some(new),
            Pair::Removed(_) => None,
        }
    }

    /// Both, when both trees have it.
    pub fn both(&self) -> Option<(T, T)> {
        match *self {
            Pair::Both { old, new, .. } => Some((old, new)),
            _ => None,
        }
    }
}

/// A member (field, oneof, value, method) of something that both trees have.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a, O, T> {
    /// What it belonged to.
    pub old_owner: &'a O,
    /// What it belongs to.
    pub new_owner: &'a O,
    /// The member itself.
    pub pair: Pair<&'a T>,
}
