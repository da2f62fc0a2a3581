//! The unary calls: permission, effect, answer.

use oxds_types::etcd::{
    AlarmAction, AlarmMember, AlarmRequest, AlarmResponse, AlarmType, AuthenticateRequest,
    AuthenticateResponse, CompactionRequest, CompactionResponse, DeleteRangeRequest,
    DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse, Request,
    ResponseHeader, StatusRequest, StatusResponse, TxnRequest, TxnResponse,
};
use prost::Message;
use tonic::Status;

use super::cluster::Data;
use super::member::Member;
use super::mvcc::KeyRange;
use super::users::Need;

/// A request with one response.
pub(super) trait Call: Message + Default + 'static {
    type Answer: Answer;

    /// Returns the permissions that the request needs; `None` if it needs no user.
    fn needs(&self) -> Option<Vec<Need<'_>>>;

    /// Returns whether a member without a leader cannot answer it.
    fn needs_leader(&self) -> bool {
        true
    }

    /// Executes the request.
    ///
    /// # Errors
    /// A refusal.
    fn act(&self, data: &mut Data, member: &Member) -> Result<Self::Answer, Status>;
}

/// A response with a header.
pub(super) trait Answer: Message + Default + 'static {
    fn header(&mut self) -> &mut Option<ResponseHeader>;
}

macro_rules! answers {
    ($($answer:ty)*) => {
        $(impl Answer for $answer {
            fn header(&mut self) -> &mut Option<ResponseHeader> {
                &mut self.header
            }
        })*
    };
}

answers! {
    RangeResponse PutResponse DeleteRangeResponse TxnResponse CompactionResponse
    LeaseGrantResponse LeaseRevokeResponse StatusResponse AlarmResponse AuthenticateResponse
}

fn range<'a>(key: &'a [u8], end: &'a [u8]) -> KeyRange<'a> {
    KeyRange { key, end }
}

impl Call for RangeRequest {
    type Answer = RangeResponse;

    fn needs(&self) -> Option<Vec<Need<'_>>> {
        Some(vec![Need::Read(range(&self.key, &self.range_end))])
    }

    fn needs_leader(&self) -> bool {
        !self.serializable
    }

    fn act(&self, data: &mut Data, member: &Member) -> Result<RangeResponse, Status> {
        let stale_at = member.faults().stale_at.filter(|_| self.revision == 0);
        let Some(revision) = stale_at else {
            return data.range(self);
        };
        let mut answer = data.range(&Self {
            revision,
            ..self.clone()
        })?;
        answer.header = Some(ResponseHeader {
            revision,
            ..member.header(data)
        });
        Ok(answer)
    }
}

impl Call for PutRequest {
    type Answer = PutResponse;

    fn needs(&self) -> Option<Vec<Need<'_>>> {
        Some(vec![Need::Write(range(&self.key, b""))])
    }

    fn act(&self, data: &mut Data, _: &Member) -> Result<PutResponse, Status> {
        data.put(self)
    }
}

impl Call for DeleteRangeRequest {
    type Answer = DeleteRangeResponse;

    fn needs(&self) -> Option<Vec<Need<'_>>> {
        Some(vec![Need::Write(range(&self.key, &self.range_end))])
    }

    fn act(&self, data: &mut Data, _: &Member) -> Result<DeleteRangeResponse, Status> {
        data.delete(self)
    }
}

impl Call for TxnRequest {
    type Answer = TxnResponse;

    fn needs(&self) -> Option<Vec<Need<'_>>> {
        let mut needs = Vec::new();
        for compare in &self.compare {
            needs.push(Need::Read(range(&compare.key, &compare.range_end)));
        }
        for operation in self.success.iter().chain(&self.failure) {
            needs.extend(match &operation.request {
                Some(Request::Range(read)) => read.needs().unwrap_or_default(),
                Some(Request::Put(put)) => put.needs().unwrap_or_default(),
                Some(Request::DeleteRange(delete)) => delete.needs().unwrap_or_default(),
                Some(Request::Txn(nested)) => nested.needs().unwrap_or_default(),
                None => Vec::new(),
            });
        }
        Some(needs)
    }

    fn act(&self, data: &mut Data, _: &Member) -> Result<TxnResponse, Status> {
        data.txn(self)
    }
}

impl Call for CompactionRequest {
    type Answer = CompactionResponse;

    fn needs(&self) -> Option<Vec<Need<'_>>> {
        Some(vec![Need::Administration])
    }

    fn act(&self, data: &mut Data, _: &Member) -> Result<CompactionResponse, Status> {
        data.compact(self)
    }
}

impl Call for LeaseGrantRequest {
    type Answer = LeaseGrantResponse;

    fn needs(&self) -> Option<Vec<Need<'_>>> {
        Some(Vec::new())
    }

    fn act(&self, data: &mut Data, _: &Member) -> Result<LeaseGrantResponse, Status> {
        data.grant(self)
    }
}

impl Call for LeaseRevokeRequest {
    type Answer = LeaseRevokeResponse;

    fn needs(&self) -> Option<Vec<Need<'_>>> {
        Some(Vec::new())
    }

    fn act(&self, data: &mut Data, _: &Member) -> Result<LeaseRevokeResponse, Status> {
        data.revoke(self)
    }
}

impl Call for StatusRequest {
    type Answer = StatusResponse;

    fn needs(&self) -> Option<Vec<Need<'_>>> {
        Some(Vec::new())
    }

    fn needs_leader(&self) -> bool {
        false
    }

    fn act(&self, data: &mut Data, member: &Member) -> Result<StatusResponse, Status> {
        let faults = member.faults();
        let [db_size, db_size_in_use, db_size_quota] = faults.sizes;
        let errors = match (data.is_full, faults.is_leaderless) {
            (_, true) => vec!["etcdserver: no leader".to_owned()],
            (true, false) => vec![format!("memberID:{} alarm:NOSPACE ", member.id)],
            (false, false) => Vec::new(),
        };
        Ok(StatusResponse {
            header: None,
            version: faults.version.clone(),
            db_size,
            leader: if faults.is_leaderless { 0 } else { member.id },
            errors,
            db_size_in_use,
            is_learner: faults.is_learner,
            db_size_quota,
        })
    }
}

impl Call for AlarmRequest {
    type Answer = AlarmResponse;

    fn needs(&self) -> Option<Vec<Need<'_>>> {
        Some(match self.action() {
            AlarmAction::Get => Vec::new(),
            AlarmAction::Activate | AlarmAction::Deactivate => vec![Need::Administration],
        })
    }

    fn act(&self, data: &mut Data, member: &Member) -> Result<AlarmResponse, Status> {
        let concerned = matches!(self.alarm(), AlarmType::None | AlarmType::NoSpace);
        let alarm = AlarmMember {
            member_id: member.id,
            alarm: AlarmType::NoSpace.into(),
        };
        let was_full = data.is_full;
        // An alarm is raised and cleared for exactly one member, and listed for all if the id is 0.
        let is_meant = self.alarm() == AlarmType::NoSpace && self.member_id == member.id;
        match self.action() {
            AlarmAction::Get => {}
            AlarmAction::Activate => data.is_full |= is_meant,
            AlarmAction::Deactivate => data.is_full &= !is_meant,
        }
        let is_listed = concerned && (was_full || data.is_full);
        Ok(AlarmResponse {
            header: None,
            alarms: is_listed.then_some(alarm).into_iter().collect(),
        })
    }
}

impl Call for AuthenticateRequest {
    type Answer = AuthenticateResponse;

    fn needs(&self) -> Option<Vec<Need<'_>>> {
        None
    }

    fn act(&self, data: &mut Data, _: &Member) -> Result<AuthenticateResponse, Status> {
        let token = data.users.authenticate(&self.name, &self.password)?;
        Ok(AuthenticateResponse {
            header: None,
            token,
        })
    }
}
