//! The test service, and the control of the health service.

use std::sync::Arc;

use tonic::metadata::MetadataValue;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::behaviour::{self, BEHAVIOUR};
use crate::messages::{Empty, Payload, SimpleRequest, SimpleResponse, path};
use crate::wire;

/// Response header with the name of the answering host.
const HOSTNAME: &str = "hostname";
/// Maximum message size of a gRPC client by default; a larger response could only fail.
const LARGEST_ANSWER: usize = 4 << 20;

/// Shared text, cheap to clone into every call.
type Text = Arc<str>;

/// Implementation of the test service.
#[derive(Clone, Debug)]
pub(super) struct TestService {
    pub(super) host: Text,
    pub(super) id: Text,
}

impl TestService {
    /// Adds both methods.
    pub(super) fn add(&self, routes: &mut Routes) {
        let service = self.clone();
        wire::add(routes, path::EMPTY_CALL, move |request: Request<Empty>| {
            let service = service.clone();
            async move {
                service.behave(&request).await?;
                service.answer(Empty {})
            }
        });
        let service = self.clone();
        let unary = move |request: Request<SimpleRequest>| {
            let service = service.clone();
            async move {
                service.behave(&request).await?;
                let simple = service.simple(request.get_ref())?;
                service.answer(simple)
            }
        };
        wire::add(routes, path::UNARY_CALL, unary);
    }

    async fn behave<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let values = request.metadata().get_all(BEHAVIOUR).iter();
        let values = values.filter_map(|value| value.to_str().ok());
        let steps =
            behaviour::parse(values).map_err(|e| Status::invalid_argument(e.to_string()))?;
        let attempts = behaviour::previous_attempts(request.metadata());
        behaviour::act(&steps, &self.host, attempts).await
    }

    fn simple(&self, request: &SimpleRequest) -> Result<SimpleResponse, Status> {
        let size = usize::try_from(request.response_size).ok();
        let size = size.filter(|size| *size <= LARGEST_ANSWER).ok_or_else(|| {
            let asked = request.response_size;
            Status::invalid_argument(format!("response_size {asked}: 0 … {LARGEST_ANSWER}"))
        })?;
        Ok(SimpleResponse {
            payload: (size > 0).then(|| Payload {
                body: vec![0; size].into(),
            }),
            server_id: self.id.as_ref().to_owned(),
            hostname: self.host.as_ref().to_owned(),
        })
    }

    fn answer<T>(&self, message: T) -> Result<Response<T>, Status> {
        let host = MetadataValue::try_from(&*self.host)
            .map_err(|_| Status::internal("the host's name is no header value"))?;
        let mut response = Response::new(message);
        response.metadata_mut().insert(HOSTNAME, host);
        Ok(response)
    }
}

/// Adds the methods by which a test driver sets the health.
pub(super) fn add_health_control(routes: &mut Routes, reporter: &HealthReporter) {
    for (path, status) in [
        (path::SET_SERVING, ServingStatus::Serving),
        (path::SET_NOT_SERVING, ServingStatus::NotServing),
    ] {
        let reporter = reporter.clone();
        wire::add(routes, path, move |_: Request<Empty>| {
            let reporter = reporter.clone();
            async move {
                reporter.set_service_status("", status).await;
                Ok(Response::new(Empty {}))
            }
        });
    }
}
