//! State of one subscribed name.

use std::sync::Arc;

use crate::snapshot::Resource;

/// A name with what was sent for it and what the client accepted. Resets with the stream.
///
/// ```text
///            ┌─────────┐ resource   ┌──────┐ ACK ┌────────┐ another resource ┌─────────┐ ACK
///   asked ──▶│ NotSent │ ─────────▶ │ Sent │ ──▶ │ InSync │ ───────────────▶ │ Changed │ ──▶ InSync
///            └─────────┘            └──────┘     └────────┘                  └─────────┘
///                 │ it does not exist               │ subscribed again: Lost
///                 ▼                                 │ it does not exist any more: Gone
///              Absent                               ▼ until the new state is sent and accepted
/// ```
///
/// It takes three words, as a client may subscribe to many names: where there is a resource, the name is that of the
/// resource. NACKed content is rare, and is kept apart by the session.
#[derive(Debug, Clone)]
pub struct SubscribedName(NameState);

#[derive(Debug, Clone)]
enum NameState {
    /// Nothing was sent, the client has nothing.
    NotSent(Arc<str>),
    /// Absence was sent, the client has nothing.
    Absent(Arc<str>),
    /// This was sent, the client has nothing.
    Sent(Arc<Resource>),
    /// This was sent, and the client has it.
    InSync(Arc<Resource>),
    /// One resource was sent, the client has another.
    Changed {
        sent: Arc<Resource>,
        acked: Arc<Resource>,
    },
    /// Nothing was sent since the client subscribed again; it had this.
    Lost(Arc<Resource>),
    /// Absence was sent, the client has this.
    Gone(Arc<Resource>),
}

/// Latest state of a name that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent<'a> {
    /// Nothing since the client subscribed (again): the current state is due (S-9, S-10, S-35).
    Nothing,
    /// The resource does not exist. (SotW cannot express this, and need not.)
    Absent,
    /// Content of the resource.
    Resource(&'a Arc<Resource>),
}

/// Action for a due name.
#[derive(Debug)]
pub(crate) enum Verdict<'a> {
    /// None: the client was sent the current state.
    UpToDate,
    /// Send the resource.
    Send(&'a Arc<Resource>),
    /// Report that the copy that was sent does not exist any more.
    Gone(Arc<Resource>),
    /// Report that the resource does not exist (S-34).
    Missing,
}

impl SubscribedName {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self(NameState::NotSent(name))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        match &self.0 {
            NameState::NotSent(name) | NameState::Absent(name) => name,
            NameState::Sent(resource)
            | NameState::InSync(resource)
            | NameState::Changed { sent: resource, .. }
            | NameState::Lost(resource)
            | NameState::Gone(resource) => resource.name(),
        }
    }

    /// Returns the state that was sent last.
    #[must_use]
    pub fn sent(&self) -> Sent<'_> {
        match &self.0 {
            NameState::NotSent(_) | NameState::Lost(_) => Sent::Nothing,
            NameState::Absent(_) | NameState::Gone(_) => Sent::Absent,
            NameState::Sent(sent) | NameState::InSync(sent) | NameState::Changed { sent, .. } => {
                Sent::Resource(sent)
            }
        }
    }

    /// Returns the content that the client accepted last, and uses until it accepts other content.
    #[must_use]
    pub fn acked(&self) -> Option<&Arc<Resource>> {
        match &self.0 {
            NameState::NotSent(_) | NameState::Absent(_) | NameState::Sent(_) => None,
            NameState::InSync(acked)
            | NameState::Changed { acked, .. }
            | NameState::Lost(acked)
            | NameState::Gone(acked) => Some(acked),
        }
    }

    /// Returns the action that the current state of the resource asks for.
    pub(crate) fn verdict<'a>(&self, current: Option<&'a Arc<Resource>>) -> Verdict<'a> {
        match (self.sent(), current) {
            // xDS protocol, "ACK and NACK semantics": content that was NACKed is not sent again either (S-17, S-46).
            (Sent::Resource(sent), Some(resource)) if sent == resource => Verdict::UpToDate,
            (_, Some(resource)) => Verdict::Send(resource),
            (Sent::Resource(sent), None) => Verdict::Gone(Arc::clone(sent)),
            (Sent::Absent, None) => Verdict::UpToDate,
            (Sent::Nothing, None) => Verdict::Missing,
        }
    }

    /// The client subscribed again: the state that was sent does not count.
    pub(crate) fn ask_again(&mut self) {
        self.0 = match self.acked() {
            Some(acked) => NameState::Lost(Arc::clone(acked)),
            None => NameState::NotSent(Arc::clone(self.name())),
        };
    }

    /// Records that this content, or the absence of the resource, is sent.
    pub(crate) fn set_sent(&mut self, sent: Option<&Arc<Resource>>) {
        self.0 = match (sent.cloned(), self.acked()) {
            (Some(sent), None) => NameState::Sent(sent),
            (Some(sent), Some(acked)) => NameState::between(sent, Arc::clone(acked)),
            (None, None) => NameState::Absent(Arc::clone(self.name())),
            (None, Some(acked)) => NameState::Gone(Arc::clone(acked)),
        };
    }

    /// Records that the client accepted this content, or the absence of the resource.
    pub(crate) fn set_acked(&mut self, acked: Option<&Arc<Resource>>) {
        self.0 = match (self.sent(), acked.cloned()) {
            (Sent::Resource(sent), Some(acked)) => NameState::between(Arc::clone(sent), acked),
            (Sent::Resource(sent), None) => NameState::Sent(Arc::clone(sent)),
            (Sent::Nothing, Some(acked)) => NameState::Lost(acked),
            (Sent::Nothing, None) => NameState::NotSent(Arc::clone(self.name())),
            (Sent::Absent, Some(acked)) => NameState::Gone(acked),
            (Sent::Absent, None) => NameState::Absent(Arc::clone(self.name())),
        };
    }
}

impl NameState {
    fn between(sent: Arc<Resource>, acked: Arc<Resource>) -> Self {
        if Arc::ptr_eq(&sent, &acked) {
            Self::InSync(sent)
        } else {
            Self::Changed { sent, acked }
        }
    }
}

impl<'a> Sent<'a> {
    /// Returns the resource, if one was sent.
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
    fn p7_name_with_state_takes_three_words() {
        assert_eq!(size_of::<SubscribedName>(), 3 * size_of::<usize>());
    }

    /// Each combination of sent and accepted states, in any order, is read back.
    #[test]
    fn sent_and_accepted_states_are_read_back() {
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
            named.set_sent(first);
            named.set_acked(acked);
            named.set_sent(sent);
            assert_eq!(named.sent(), sent.map_or(Sent::Absent, Sent::Resource));
            assert_eq!(named.acked(), acked);
            named.ask_again();
            assert_eq!((named.sent(), named.acked()), (Sent::Nothing, acked));
            named.set_acked(first);
            assert_eq!((named.sent(), named.acked()), (Sent::Nothing, first));
            assert_eq!(&**named.name(), "a");
        }
    }
}
