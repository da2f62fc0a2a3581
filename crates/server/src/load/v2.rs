//! The LRS service under its v2 name.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use envoy_types::pb::envoy::service::load_stats::v3::load_reporting_service_server::LoadReportingServiceServer;
use http::uri::PathAndQuery;
use http::{Request, Response};
use oxds_types::ApiVersion;
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

use super::LoadService;
use crate::calls::Peer;
use crate::context::Context;

/// The path of the v2 method.
pub(crate) const V2_PATH: &str =
    "/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats";
const V3_PATH: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

/// The v3 service under its v2 name. The messages have the same fields with the same numbers in both versions.
#[derive(Debug, Clone)]
pub(crate) struct LoadServiceV2 {
    service: LoadReportingServiceServer<LoadService>,
    context: Arc<Context>,
}

impl LoadServiceV2 {
    pub(crate) fn new(
        service: LoadReportingServiceServer<LoadService>,
        context: &Arc<Context>,
    ) -> Self {
        Self {
            service,
            context: Arc::clone(context),
        }
    }

    /// Checks that v2 is served.
    fn check(&self, request: &Request<axum::body::Body>) -> Result<(), Status> {
        let peer = Peer::of(request.extensions())?;
        let served = self.context.check_api(ApiVersion::V2, &peer);
        served.map_err(|error| error.status(&self.context.server.metrics))
    }
}

impl Service<Request<axum::body::Body>> for LoadServiceV2 {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<axum::body::Body>) -> Self::Future {
        if let Err(status) = self.check(&request) {
            return Box::pin(std::future::ready(Ok(status.into_http())));
        }
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static(V3_PATH));
        // A valid URI stays valid with another valid path. If it did not, the service would answer UNIMPLEMENTED.
        *request.uri_mut() = parts.try_into().unwrap_or_default();
        Box::pin(self.service.call(request))
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::descriptor::{message, v2_pool};
    use oxds_types::version_map::v2_name;

    /// Given the fields that this server sets, then v2 and v3 have them with equal numbers.
    #[test]
    fn s62_load_reports_have_equal_fields_in_v2_and_v3() {
        let response = "envoy.service.load_stats.v3.LoadStatsResponse";
        let new = message(response).unwrap();
        let old = v2_pool()
            .get_message_by_name(v2_name(response).unwrap())
            .unwrap();
        for field in ["clusters", "load_reporting_interval", "send_all_clusters"] {
            let numbers = [&new, &old].map(|m| m.get_field_by_name(field).unwrap().number());
            assert_eq!(numbers[0], numbers[1], "{field}");
        }
    }
}
