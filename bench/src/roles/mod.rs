//! Parts of a scenario that run in processes of their own.
//!
//! A part is this program started again, with its [`Role`] in JSON. Its first line of output is its *hello* (usually
//! the address it bound); a part that measures prints its result as a line of JSON and ends. Parts that
//! serve end when their standard input closes, so that none outlives the run.

mod part;
mod processors;
mod role;
mod subject;
mod traffic;

pub(crate) use self::part::Part;
pub(crate) use self::processors::Processors;
pub(crate) use self::role::{ApiWork, Role};
pub(crate) use self::subject::{Holding, Layout, MeasuredPolicy, SecuredServer, Variant};
pub(crate) use self::traffic::Traffic;
