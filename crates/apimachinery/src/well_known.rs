//! Names that mean the same to everybody who reads an object.

/// The annotation of mirror pods: a pod is one exactly when it has it, whatever its value (MP-1).
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
