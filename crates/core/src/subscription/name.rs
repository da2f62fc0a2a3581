//! What is known of one name that a client asked for.

use std::sync::Arc;

use crate::snapshot::Resource;

/// A name, what the client was told about it, and what it accepted. Resets with the stream.
///
/// ```text
///            ┌────────┐ resource   ┌──────┐ ACK ┌────────┐ another resource ┌─────────┐ ACK
///   asked ──▶│ Untold │ ─────────▶ │ Sent │ ──▶ │ InSync │ ───────────────▶ │ Changed │ ──▶ InSync
///            └────────┘            └──────┘     └────────┘                  └─────────┘
///                 │ there is none                   │ asked for again, it is Lost;
///                 ▼                                 │ there is none any more: it is Gone
///              Absent                               ▼ until the client was told, and has accepted that
/// ```
///
/// Three words, as a client of many names has many of these: where there is a resource, its name is the resource's.
/// What the client *rejected* is rare and is kept apart, with the session.
#[derive(Debug, Clone)]
pub struct SubscribedName(State);

#[derive(Debug, Clone)]
enum State {
    /// Told nothing, has nothing.
    Untold(Arc<str>),
    /// Told that there is none, has nothing.
    Absent(Arc<str>),
    /// Told of this, has nothing.
    Sent(Arc<Resource>),
    /// Told of this, has it.
    InSync(Arc<Resource>),
    /// Told of one, has another.
    Changed {
        sent: Arc<Resource>,
        acked: Arc<Resource>,
    },
    /// Told nothing since it asked again, had this.
    Lost(Arc<Resource>),
    /// Told that there is none, has this.
    Gone(Arc<Resource>),
}

/// The latest thing that a client was told about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent<'a> {
    /// Nothing since it asked (again): whatever there is, it must be told (S-9, S-10, S-35).
    Nothing,
    /// That there is no such resource. (In SotW: nothing can be said, and nothing need be.)
    Absent,
    /// This resource.
    Resource(&'a Arc<Resource>),
}

impl SubscribedName {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self(State::Untold(name))
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        match &self.0 {
            State::Untold(name) | State::Absent(name) => name,
            State::Sent(resource)
            | State::InSync(resource)
            | State::Changed { sent: resource, .. }
            | State::Lost(resource)
            | State::Gone(resource) => resource.name(),
        }
    }

    /// What was sent last.
    #[must_use]
    pub fn sent(&self) -> Sent<'_> {
        match &self.0 {
            State::Untold(_) | State::Lost(_) => Sent::Nothing,
            State::Absent(_) | State::Gone(_) => Sent::Absent,
            State::Sent(sent) | State::InSync(sent) | State::Changed { sent, .. } => {
                Sent::Resource(sent)
            }
        }
    }

    /// What the client accepted last, and so uses, until it accepts something else.
    #[must_use]
    pub fn acked(&self) -> Option<&Arc<Resource>> {
        match &self.0 {
            State::Untold(_) | State::Absent(_) | State::Sent(_) => None,
            State::InSync(acked)
            | State::Changed { acked, .. }
            | State::Lost(acked)
            | State::Gone(acked) => Some(acked),
        }
    }

    /// The client asks for it again: what it was told does not count.
    pub(crate) fn ask_again(&mut self) {
        self.0 = match self.acked() {
            Some(acked) => State::Lost(Arc::clone(acked)),
            None => State::Untold(Arc::clone(self.name())),
        };
    }

    /// The client is told this, or that there is no such resource.
    pub(crate) fn tell(&mut self, sent: Option<&Arc<Resource>>) {
        self.0 = match (sent.cloned(), self.acked()) {
            (Some(sent), None) => State::Sent(sent),
            (Some(sent), Some(acked)) => State::between(sent, Arc::clone(acked)),
            (None, None) => State::Absent(Arc::clone(self.name())),
            (None, Some(acked)) => State::Gone(Arc::clone(acked)),
        };
    }

    /// The client accepted this, or that there is no such resource.
    pub(crate) fn accept(&mut self, acked: Option<&Arc<Resource>>) {
        self.0 = match (self.sent(), acked.cloned()) {
            (Sent::Resource(sent), Some(acked)) => State::between(Arc::clone(sent), acked),
            (Sent::Resource(sent), None) => State::Sent(Arc::clone(sent)),
            (Sent::Nothing, Some(acked)) => State::Lost(acked),
            (Sent::Nothing, None) => State::Untold(Arc::clone(self.name())),
            (Sent::Absent, Some(acked)) => State::Gone(acked),
            (Sent::Absent, None) => State::Absent(Arc::clone(self.name())),
        };
    }
}

impl State {
    fn between(sent: Arc<Resource>, acked: Arc<Resource>) -> Self {
        if Arc::ptr_eq(&sent, &acked) {
            Self::InSync(sent)
        } else {
            Self::Changed { sent, acked }
        }
    }
}

impl<'a> Sent<'a> {
    /// The resource, if it is one.
    #[must_use]
    pub fn resource(self) -> Option<&'a Arc<Resource>> {
        match self {
            Self::Resource(resource) => Some(resource),
            Self::Nothing | Self::Absent => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::ResourceType;

    use super::*;

    #[test]
    fn p7_a_name_and_its_state_take_three_words() {
        assert_eq!(size_of::<SubscribedName>(), 3 * size_of::<usize>());
    }

    /// Whatever a client was told and accepted, in whichever order, is what is read back.
    #[test]
    fn each_combination_of_told_and_accepted_is_kept() {
        let resource =
            |content: &[u8]| Arc::new(Resource::new(ResourceType::CLUSTER, "a", content));
        let (one, two) = (resource(b"1"), resource(b"2"));
        let some = [None, Some(&one), Some(&two)];
        for (first, sent, acked) in some.iter().flat_map(|first| {
            let pairs = some
                .iter()
                .flat_map(|sent| some.map(|acked| (*sent, acked)));
            pairs.map(move |(sent, acked)| (*first, sent, acked))
        }) {
            let mut named = SubscribedName::new("a".into());
            named.tell(first);
            named.accept(acked);
            named.tell(sent);
            assert_eq!(named.sent(), sent.map_or(Sent::Absent, Sent::Resource));
            assert_eq!(named.acked(), acked);
            named.ask_again();
            assert_eq!((named.sent(), named.acked()), (Sent::Nothing, acked));
            named.accept(first);
            assert_eq!((named.sent(), named.acked()), (Sent::Nothing, first));
            assert_eq!(&**named.name(), "a");
        }
    }
}
