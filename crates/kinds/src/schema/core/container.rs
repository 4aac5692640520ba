//! Schemas of containers.

use crate::schema::Shape::{Bool, Int32, Int64, IntOrString, List, Map, Object, Quantity, Text};
use crate::schema::table::{always, or_null, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "core/v1";
    Container CONTAINER {
        always("name", 1, Text),
        unless_zero("image", 2, Text),
        unless_zero("command", 3, List(&Text)),
        unless_zero("args", 4, List(&Text)),
        unless_zero("workingDir", 5, Text),
        unless_zero("ports", 6, List(&Object(&CONTAINER_PORT))).by_key("containerPort").keyed(&["containerPort", "protocol"]),
        unless_zero("envFrom", 19, List(&Object(&ENV_FROM_SOURCE))),
        unless_zero("env", 7, List(&Object(&ENV_VAR))).by_key("name"),
        always("resources", 8, Object(&RESOURCE_REQUIREMENTS)),
        unless_zero("resizePolicy", 23, List(&Object(&CONTAINER_RESIZE_POLICY))),
        when_set("restartPolicy", 24, Text),
        unless_zero("restartPolicyRules", 25, List(&Object(&CONTAINER_RESTART_RULE))),
        unless_zero("volumeMounts", 9, List(&Object(&VOLUME_MOUNT))).by_key("mountPath"),
        unless_zero("volumeDevices", 21, List(&Object(&VOLUME_DEVICE))).by_key("devicePath"),
        when_set("livenessProbe", 10, Object(&PROBE)),
        when_set("readinessProbe", 11, Object(&PROBE)),
        when_set("startupProbe", 22, Object(&PROBE)),
        when_set("lifecycle", 12, Object(&LIFECYCLE)),
        unless_zero("terminationMessagePath", 13, Text),
        unless_zero("terminationMessagePolicy", 20, Text).one_of(values::TERMINATION_MESSAGE_POLICIES),
        unless_zero("imagePullPolicy", 14, Text).one_of(values::PULL_POLICIES),
        when_set("securityContext", 15, Object(&SECURITY_CONTEXT)),
        unless_zero("stdin", 16, Bool),
        unless_zero("stdinOnce", 17, Bool),
        unless_zero("tty", 18, Bool),
    }
    EphemeralContainer EPHEMERAL_CONTAINER {
        always("name", 1, Text).within(&[1]),
        unless_zero("image", 2, Text).within(&[1]),
        unless_zero("command", 3, List(&Text)).within(&[1]),
        unless_zero("args", 4, List(&Text)).within(&[1]),
        unless_zero("workingDir", 5, Text).within(&[1]),
        unless_zero("ports", 6, List(&Object(&CONTAINER_PORT))).within(&[1]).by_key("containerPort").keyed(&["containerPort", "protocol"]),
        unless_zero("envFrom", 19, List(&Object(&ENV_FROM_SOURCE))).within(&[1]),
        unless_zero("env", 7, List(&Object(&ENV_VAR))).within(&[1]).by_key("name"),
        always("resources", 8, Object(&RESOURCE_REQUIREMENTS)).within(&[1]),
        unless_zero("resizePolicy", 23, List(&Object(&CONTAINER_RESIZE_POLICY))).within(&[1]),
        when_set("restartPolicy", 24, Text).within(&[1]),
        unless_zero("restartPolicyRules", 25, List(&Object(&CONTAINER_RESTART_RULE))).within(&[1]),
        unless_zero("volumeMounts", 9, List(&Object(&VOLUME_MOUNT))).within(&[1]).by_key("mountPath"),
        unless_zero("volumeDevices", 21, List(&Object(&VOLUME_DEVICE))).within(&[1]).by_key("devicePath"),
        when_set("livenessProbe", 10, Object(&PROBE)).within(&[1]),
        when_set("readinessProbe", 11, Object(&PROBE)).within(&[1]),
        when_set("startupProbe", 22, Object(&PROBE)).within(&[1]),
        when_set("lifecycle", 12, Object(&LIFECYCLE)).within(&[1]),
        unless_zero("terminationMessagePath", 13, Text).within(&[1]),
        unless_zero("terminationMessagePolicy", 20, Text).one_of(values::TERMINATION_MESSAGE_POLICIES).within(&[1]),
        unless_zero("imagePullPolicy", 14, Text).one_of(values::PULL_POLICIES).within(&[1]),
        when_set("securityContext", 15, Object(&SECURITY_CONTEXT)).within(&[1]),
        unless_zero("stdin", 16, Bool).within(&[1]),
        unless_zero("stdinOnce", 17, Bool).within(&[1]),
        unless_zero("tty", 18, Bool).within(&[1]),
        unless_zero("targetContainerName", 2, Text),
    }
    ContainerPort CONTAINER_PORT {
        unless_zero("name", 1, Text),
        unless_zero("hostPort", 2, Int32),
        always("containerPort", 3, Int32),
        unless_zero("protocol", 4, Text).one_of(values::PROTOCOLS).defaults_to("TCP"),
        unless_zero("hostIP", 5, Text),
    }
    EnvFromSource ENV_FROM_SOURCE {
        unless_zero("prefix", 1, Text),
        when_set("configMapRef", 2, Object(&CONFIG_MAP_ENV_SOURCE)),
        when_set("secretRef", 3, Object(&SECRET_ENV_SOURCE)),
    }
    EnvVar ENV_VAR {
        always("name", 1, Text),
        unless_zero("value", 2, Text),
        when_set("valueFrom", 3, Object(&ENV_VAR_SOURCE)),
    }
    ResourceRequirements RESOURCE_REQUIREMENTS {
        unless_zero("limits", 1, Map(&Quantity)),
        unless_zero("requests", 2, Map(&Quantity)),
        unless_zero("claims", 3, List(&Object(&RESOURCE_CLAIM))).keyed(&["name"]),
    }
    ContainerResizePolicy CONTAINER_RESIZE_POLICY {
        always("resourceName", 1, Text),
        always("restartPolicy", 2, Text),
    }
    ContainerRestartRule CONTAINER_RESTART_RULE {
        unless_zero("action", 1, Text).required(),
        when_set("exitCodes", 2, Object(&CONTAINER_RESTART_RULE_ON_EXIT_CODES)),
    }
    VolumeMount VOLUME_MOUNT {
        always("name", 1, Text),
        unless_zero("readOnly", 2, Bool),
        when_set("recursiveReadOnly", 7, Text),
        always("mountPath", 3, Text),
        unless_zero("subPath", 4, Text),
        when_set("mountPropagation", 5, Text).one_of(values::MOUNT_PROPAGATIONS),
        unless_zero("subPathExpr", 6, Text),
    }
    VolumeDevice VOLUME_DEVICE {
        always("name", 1, Text),
        always("devicePath", 2, Text),
    }
    Probe PROBE {
        when_set("exec", 1, Object(&EXEC_ACTION)).within(&[1]),
        when_set("httpGet", 2, Object(&HTTP_GET_ACTION)).within(&[1]),
        when_set("tcpSocket", 3, Object(&TCP_SOCKET_ACTION)).within(&[1]),
        when_set("grpc", 4, Object(&GRPC_ACTION)).within(&[1]),
        unless_zero("initialDelaySeconds", 2, Int32),
        unless_zero("timeoutSeconds", 3, Int32),
        unless_zero("periodSeconds", 4, Int32),
        unless_zero("successThreshold", 5, Int32),
        unless_zero("failureThreshold", 6, Int32),
        when_set("terminationGracePeriodSeconds", 7, Int64),
    }
    Lifecycle LIFECYCLE {
        when_set("postStart", 1, Object(&LIFECYCLE_HANDLER)),
        when_set("preStop", 2, Object(&LIFECYCLE_HANDLER)),
        when_set("stopSignal", 3, Text),
    }
    SecurityContext SECURITY_CONTEXT {
        when_set("capabilities", 1, Object(&CAPABILITIES)),
        when_set("privileged", 2, Bool),
        when_set("seLinuxOptions", 3, Object(&SE_LINUX_OPTIONS)),
        when_set("windowsOptions", 10, Object(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
        when_set("runAsUser", 4, Int64),
        when_set("runAsGroup", 8, Int64),
        when_set("runAsNonRoot", 5, Bool),
        when_set("readOnlyRootFilesystem", 6, Bool),
        when_set("allowPrivilegeEscalation", 7, Bool),
        when_set("procMount", 9, Text).one_of(values::PROC_MOUNTS),
        when_set("seccompProfile", 11, Object(&SECCOMP_PROFILE)),
        when_set("appArmorProfile", 12, Object(&APP_ARMOR_PROFILE)),
    }
    ConfigMapEnvSource CONFIG_MAP_ENV_SOURCE {
        unless_zero("name", 1, Text).within(&[1]),
        when_set("optional", 2, Bool),
    }
    SecretEnvSource SECRET_ENV_SOURCE {
        unless_zero("name", 1, Text).within(&[1]),
        when_set("optional", 2, Bool),
    }
    EnvVarSource ENV_VAR_SOURCE {
        when_set("fieldRef", 1, Object(&OBJECT_FIELD_SELECTOR)),
        when_set("resourceFieldRef", 2, Object(&RESOURCE_FIELD_SELECTOR)),
        when_set("configMapKeyRef", 3, Object(&CONFIG_MAP_KEY_SELECTOR)),
        when_set("secretKeyRef", 4, Object(&SECRET_KEY_SELECTOR)),
        when_set("fileKeyRef", 5, Object(&FILE_KEY_SELECTOR)),
    }
    ResourceClaim RESOURCE_CLAIM {
        always("name", 1, Text),
        unless_zero("request", 2, Text),
    }
    ContainerRestartRuleOnExitCodes CONTAINER_RESTART_RULE_ON_EXIT_CODES {
        unless_zero("operator", 1, Text).required(),
        unless_zero("values", 2, List(&Int32)),
    }
    ExecAction EXEC_ACTION {
        unless_zero("command", 1, List(&Text)),
    }
    HTTPGetAction HTTP_GET_ACTION {
        unless_zero("path", 1, Text),
        always("port", 2, IntOrString).required(),
        unless_zero("host", 3, Text),
        unless_zero("scheme", 4, Text).one_of(values::URI_SCHEMES),
        unless_zero("httpHeaders", 5, List(&Object(&HTTP_HEADER))),
    }
    TCPSocketAction TCP_SOCKET_ACTION {
        always("port", 1, IntOrString).required(),
        unless_zero("host", 2, Text),
    }
    GRPCAction GRPC_ACTION {
        always("port", 1, Int32),
        or_null("service", 2, Text),
    }
    LifecycleHandler LIFECYCLE_HANDLER {
        when_set("exec", 1, Object(&EXEC_ACTION)),
        when_set("httpGet", 2, Object(&HTTP_GET_ACTION)),
        when_set("tcpSocket", 3, Object(&TCP_SOCKET_ACTION)),
        when_set("sleep", 4, Object(&SLEEP_ACTION)),
    }
    Capabilities CAPABILITIES {
        unless_zero("add", 1, List(&Text)),
        unless_zero("drop", 2, List(&Text)),
    }
    SELinuxOptions SE_LINUX_OPTIONS {
        unless_zero("user", 1, Text),
        unless_zero("role", 2, Text),
        unless_zero("type", 3, Text),
        unless_zero("level", 4, Text),
    }
    WindowsSecurityContextOptions WINDOWS_SECURITY_CONTEXT_OPTIONS {
        when_set("gmsaCredentialSpecName", 1, Text),
        when_set("gmsaCredentialSpec", 2, Text),
        when_set("runAsUserName", 3, Text),
        when_set("hostProcess", 4, Bool),
    }
    SeccompProfile SECCOMP_PROFILE {
        always("type", 1, Text).one_of(values::PROFILE_TYPES),
        when_set("localhostProfile", 2, Text),
    }
    AppArmorProfile APP_ARMOR_PROFILE {
        always("type", 1, Text).one_of(values::PROFILE_TYPES),
        when_set("localhostProfile", 2, Text),
    }
    ObjectFieldSelector OBJECT_FIELD_SELECTOR atomic {
        unless_zero("apiVersion", 1, Text),
        always("fieldPath", 2, Text),
    }
    ResourceFieldSelector RESOURCE_FIELD_SELECTOR atomic {
        unless_zero("containerName", 1, Text),
        always("resource", 2, Text),
        always("divisor", 3, Quantity),
    }
    ConfigMapKeySelector CONFIG_MAP_KEY_SELECTOR atomic {
        unless_zero("name", 1, Text).within(&[1]),
        always("key", 2, Text),
        when_set("optional", 3, Bool),
    }
    SecretKeySelector SECRET_KEY_SELECTOR atomic {
        unless_zero("name", 1, Text).within(&[1]),
        always("key", 2, Text),
        when_set("optional", 3, Bool),
    }
    FileKeySelector FILE_KEY_SELECTOR atomic {
        always("volumeName", 1, Text),
        always("path", 2, Text),
        always("key", 3, Text),
        when_set("optional", 4, Bool),
    }
    HTTPHeader HTTP_HEADER {
        always("name", 1, Text),
        always("value", 2, Text),
    }
    SleepAction SLEEP_ACTION {
        always("seconds", 1, Int64),
    }
}
