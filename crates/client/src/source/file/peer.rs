//! One file, read for one resource type.

use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::discovery::Node;

use super::feed::FileFeed;
use super::spec::File;
use crate::bootstrap::Server;
use crate::source::optional::{OptionalFeed, OptionalPeer};

/// A file, and the type of the resources that are read from it.
#[derive(Debug)]
struct FilePeer {
    file: File,
    resource_type: ResourceType,
}

impl File {
    /// Returns the peer for a resource type.
    pub(crate) fn peer(&self, resource_type: &ResourceType) -> Arc<dyn OptionalPeer> {
        Arc::new(FilePeer {
            file: self.clone(),
            resource_type: resource_type.clone(),
        })
    }
}

impl OptionalPeer for FilePeer {
    fn uri(&self) -> Arc<str> {
        self.file.path.display().to_string().into()
    }

    fn server(&self) -> Option<&Server> {
        None
    }

    fn feed(&self, _: &Node, max_response_bytes: usize) -> Box<dyn OptionalFeed> {
        let (file, resource_type) = (self.file.clone(), self.resource_type.clone());
        Box::new(FileFeed::new(file, resource_type, max_response_bytes))
    }
}
