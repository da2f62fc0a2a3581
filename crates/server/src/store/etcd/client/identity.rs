//! The member at the other end of a connection.

use oxds_types::etcd::StatusResponse;

use super::error::{OLDEST, Reason};

/// The member that answered, and its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberIdentity {
    /// Id of the cluster. A cluster that was restored from a backup has the id of the original (G-27).
    pub cluster: u64,
    /// Id of the member.
    pub member: u64,
    /// Version of etcd, such as `3.7.3`.
    pub version: String,
}

impl MemberIdentity {
    /// Reads the identity from the status of a member.
    ///
    /// # Errors
    /// The program is not an etcd, it is too old, or it is a learner (G-33).
    pub(super) fn read(status: &StatusResponse) -> Result<Self, Reason> {
        // Every member of an etcd has both ids, made from hashes. kine answers without them (kine#125).
        let header = status.header.unwrap_or_default();
        if header.cluster_id == 0 || header.member_id == 0 {
            let text = "it reports neither cluster nor member; kine and other programs with a part of etcd's API are not supported";
            return Err(Reason::NotEtcd(text.to_owned()));
        }
        let version = status.version.as_str();
        let mut numbers = version.split('.').map(str::parse::<u64>);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return Err(Reason::NotEtcd(format!(
                "it reports the version {version:?}"
            )));
        };
        if (major, minor) < OLDEST {
            return Err(Reason::TooOld(version.to_owned()));
        }
        if status.is_learner {
            return Err(Reason::Learner);
        }
        Ok(Self {
            cluster: header.cluster_id,
            member: header.member_id,
            version: version.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::etcd::ResponseHeader;

    use super::*;

    fn status(cluster_id: u64, version: &str) -> StatusResponse {
        StatusResponse {
            header: Some(ResponseHeader {
                cluster_id,
                member_id: 7,
                revision: 1,
                raft_term: 1,
            }),
            version: version.to_owned(),
            ..StatusResponse::default()
        }
    }

    #[test]
    fn g33_other_programs_and_old_versions_are_named() {
        let identity = MemberIdentity::read(&status(1, "3.4.23")).unwrap();
        assert_eq!((identity.cluster, identity.member), (1, 7));
        for version in ["3.5.0-rc.1", "4.0.0"] {
            assert!(
                MemberIdentity::read(&status(1, version)).is_ok(),
                "{version}"
            );
        }
        let kine = MemberIdentity::read(&status(0, "3.5.13")).unwrap_err();
        assert!(kine.to_string().contains("kine"), "{kine}");
        let old = MemberIdentity::read(&status(1, "3.3.27")).unwrap_err();
        assert_eq!(
            old.to_string(),
            "etcd 3.3.27 is too old: expected 3.4 or later"
        );
        let strange = MemberIdentity::read(&status(1, "")).unwrap_err();
        assert!(matches!(strange, Reason::NotEtcd(_)), "{strange}");
    }
}
