//! Resource quantities (AP-112). They live beside the policy, which compares them as well (NR-51).

pub use portcullis_policy::quantity::{Quantity, QuantityError};
