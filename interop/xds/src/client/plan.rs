//! Plan of the client's calls: from its flags at first, then from `Configure`.

use std::time::Duration;

use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};

use crate::messages::{ClientConfigureRequest, RpcType};

/// Calls of every tick.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) calls: Vec<Call>,
    /// Deadline of each call.
    pub(super) timeout: Duration,
}

/// One call of a tick.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) kind: RpcType,
    pub(super) metadata: MetadataMap,
}

/// A plan that cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Unknown method.
    #[error("method {0:?}: there are EmptyCall and UnaryCall")]
    Method(String),
    /// Text that does not have the expected form.
    #[error("metadata {0:?}: METHOD:KEY:VALUE is wanted")]
    Form(String),
    /// Metadata that HTTP/2 cannot carry.
    #[error("metadata {key:?}: {value:?} is no header")]
    Header {
        /// Key of the entry.
        key: String,
        /// Value of the entry.
        value: String,
    },
    /// A negative deadline.
    #[error("timeout_sec {0}: at least 0 is wanted")]
    Timeout(i32),
}

impl Plan {
    /// Returns the plan of `--rpc` and `--metadata`.
    pub(super) fn of_flags(
        rpc: &str,
        metadata: &str,
        timeout: Duration,
    ) -> Result<Self, PlanError> {
        let mut plan = Self::of(rpc.split(',').map(method), timeout)?;
        for item in metadata.split(',').filter(|item| !item.is_empty()) {
            let mut parts = item.split(':');
            let kind = method(parts.next().unwrap_or_default())?;
            let pairs: Vec<_> = parts.collect();
            if pairs.is_empty() || pairs.len() % 2 != 0 {
                return Err(PlanError::Form(item.to_owned()));
            }
            for pair in pairs.chunks_exact(2) {
                plan.add(kind, pair[0], pair[1])?;
            }
        }
        Ok(plan)
    }

    /// Returns the plan of a `Configure` request.
    pub(super) fn of_request(
        request: &ClientConfigureRequest,
        default: Duration,
    ) -> Result<Self, PlanError> {
        let seconds = request.timeout_sec;
        let timeout = match u64::try_from(seconds).map_err(|_| PlanError::Timeout(seconds))? {
            0 => default,
            seconds => Duration::from_secs(seconds),
        };
        let kind = |number: i32| {
            RpcType::try_from(number).map_err(|_| PlanError::Method(number.to_string()))
        };
        let mut plan = Self::of(request.types.iter().copied().map(kind), timeout)?;
        for metadata in &request.metadata {
            plan.add(kind(metadata.kind)?, &metadata.key, &metadata.value)?;
        }
        Ok(plan)
    }

    fn of(
        kinds: impl Iterator<Item = Result<RpcType, PlanError>>,
        timeout: Duration,
    ) -> Result<Self, PlanError> {
        let call = |kind: Result<RpcType, PlanError>| {
            Ok(Call {
                kind: kind?,
                metadata: MetadataMap::new(),
            })
        };
        let calls = kinds.map(call).collect::<Result<_, _>>()?;
        Ok(Self { calls, timeout })
    }

    /// Metadata of a method that is not called is left out.
    fn add(&mut self, kind: RpcType, key: &str, value: &str) -> Result<(), PlanError> {
        let refused = || PlanError::Header {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        let header: AsciiMetadataKey = key.to_ascii_lowercase().parse().map_err(|_| refused())?;
        let content: AsciiMetadataValue = value.parse().map_err(|_| refused())?;
        for call in self.calls.iter_mut().filter(|call| call.kind == kind) {
            call.metadata.append(header.clone(), content.clone());
        }
        Ok(())
    }
}

fn method(name: &str) -> Result<RpcType, PlanError> {
    RpcType::of_method(name).ok_or_else(|| PlanError::Method(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::ConfiguredMetadata;

    const DEFAULT: Duration = Duration::from_secs(20);

    fn metadata(plan: &Plan, kind: RpcType, key: &str) -> Vec<String> {
        let calls = plan.calls.iter().filter(|call| call.kind == kind);
        let values = calls.flat_map(|call| call.metadata.get_all(key).iter());
        values.map(|v| v.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn metadata_goes_to_its_method() {
        let flag = "EmptyCall:Xds_md:empty_ytpme,UnaryCall:a:1:a:2";
        let plan = Plan::of_flags("EmptyCall,UnaryCall", flag, DEFAULT).unwrap();
        assert_eq!(
            metadata(&plan, RpcType::EmptyCall, "xds_md"),
            ["empty_ytpme"]
        );
        assert_eq!(metadata(&plan, RpcType::UnaryCall, "a"), ["1", "2"]);
        assert!(metadata(&plan, RpcType::UnaryCall, "xds_md").is_empty());
    }

    #[test]
    fn flags_that_make_no_plan_are_refused() {
        let of = |rpc, metadata| Plan::of_flags(rpc, metadata, DEFAULT).unwrap_err();
        assert_eq!(of("Unary", ""), PlanError::Method("Unary".to_owned()));
        assert_eq!(
            of("UnaryCall", "UnaryCall:a"),
            PlanError::Form("UnaryCall:a".to_owned())
        );
        assert!(matches!(
            of("UnaryCall", "UnaryCall:a b:c"),
            PlanError::Header { .. }
        ));
    }

    #[test]
    fn a_request_replaces_methods_metadata_and_timeout() {
        let mut request = ClientConfigureRequest {
            types: vec![RpcType::EmptyCall.into()],
            metadata: vec![ConfiguredMetadata {
                kind: RpcType::EmptyCall.into(),
                key: "rpc-behavior".to_owned(),
                value: "keep-open".to_owned(),
            }],
            timeout_sec: 0,
        };
        let plan = Plan::of_request(&request, DEFAULT).unwrap();
        assert_eq!((plan.calls.len(), plan.timeout), (1, DEFAULT));
        assert_eq!(
            metadata(&plan, RpcType::EmptyCall, "rpc-behavior"),
            ["keep-open"]
        );
        request.timeout_sec = 3;
        let plan = Plan::of_request(&request, DEFAULT).unwrap();
        assert_eq!(plan.timeout, Duration::from_secs(3));
        request.timeout_sec = -1;
        assert_eq!(
            Plan::of_request(&request, DEFAULT).unwrap_err(),
            PlanError::Timeout(-1)
        );
        request.types = vec![7];
        request.timeout_sec = 0;
        assert!(matches!(
            Plan::of_request(&request, DEFAULT),
            Err(PlanError::Method(_))
        ));
    }
}
