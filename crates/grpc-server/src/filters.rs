//! HTTP filters of an RPC (gRFC A39).

use std::borrow::Cow;

use http::HeaderMap;
use oxds_core::lb::Headers;
use oxds_core::rbac::{AuditEvent, Call, DENIED};
use oxds_core::resource::{AuditTarget, FilterConfig, HttpFilter};
use tonic::Status;

use crate::audit;

/// Headers of an RPC as they were received.
///
/// Routes treat a header whose value is not text as absent. For authorization it is present, because such a value could
/// otherwise hide a header from the rule that denies it.
pub(crate) struct ReceivedHeaders<'a>(pub(crate) &'a HeaderMap);

impl Headers for ReceivedHeaders<'_> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let values = self.0.get_all(name).iter();
        let mut values = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let first = values.next()?;
        // gRFC A41: the values of a repeated header are joined by commas.
        Some(values.fold(first, |joined, value| format!("{joined},{value}").into()))
    }
}

/// Runs the filters in their order. The first one that does not let the RPC pass decides.
///
/// # Errors
/// The status with which the RPC fails.
pub(crate) fn run(filters: &[HttpFilter], call: &Call<'_>) -> Result<(), Status> {
    for filter in filters {
        let FilterConfig::Rbac(rbac) = &filter.config else {
            // The filters of clients are ignored on servers, if they are optional. The parser has left them out.
            continue;
        };
        // gRFC A41.
        let verdict = rbac.evaluate(call);
        let loggers = rbac.loggers(&verdict);
        if !loggers.is_empty() {
            // gRFC A59: the event is logged before the call runs.
            let event = AuditEvent::new(&filter.name, call, &verdict);
            for target in loggers {
                match target {
                    AuditTarget::Stdout => audit::write(&event),
                    AuditTarget::Custom(custom) => custom.logger().log(&event),
                }
            }
        }
        if !verdict.is_allowed {
            // The caller need not know the rules; the operator must.
            tracing::debug!(
                target: "oxds::grpc_server",
                filter = &*filter.name,
                policy = verdict.policy,
                path = call.path,
                peer = %call.source,
                principal = call.principal(),
                "call denied"
            );
            return Err(Status::permission_denied(DENIED));
        }
    }
    Ok(())
}
