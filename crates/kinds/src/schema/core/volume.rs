//! Schemas of pod volumes.

use crate::schema::Shape::{Bool, Int32, Int64, List, Map, Object, Quantity, Text};
use crate::schema::core::claim::PERSISTENT_VOLUME_CLAIM_TEMPLATE;
use crate::schema::core::container::{OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR};
use crate::schema::core::references::LOCAL_OBJECT_REFERENCE;
use crate::schema::meta::LABEL_SELECTOR;
use crate::schema::table::{always, or_null, types, unless_zero, when_set};
use crate::schema::values;

types! {
    "core/v1";
    Volume VOLUME {
        always("name", 1, Text),
        when_set("hostPath", 1, Object(&HOST_PATH_VOLUME_SOURCE)).within(&[2]),
        when_set("emptyDir", 2, Object(&EMPTY_DIR_VOLUME_SOURCE)).within(&[2]),
        when_set("gcePersistentDisk", 3, Object(&GCE_PERSISTENT_DISK_VOLUME_SOURCE)).within(&[2]),
        when_set("awsElasticBlockStore", 4, Object(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)).within(&[2]),
        when_set("gitRepo", 5, Object(&GIT_REPO_VOLUME_SOURCE)).within(&[2]),
        when_set("secret", 6, Object(&SECRET_VOLUME_SOURCE)).within(&[2]),
        when_set("nfs", 7, Object(&NFS_VOLUME_SOURCE)).within(&[2]),
        when_set("iscsi", 8, Object(&ISCSI_VOLUME_SOURCE)).within(&[2]),
        when_set("glusterfs", 9, Object(&GLUSTERFS_VOLUME_SOURCE)).within(&[2]),
        when_set("persistentVolumeClaim", 10, Object(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)).within(&[2]),
        when_set("rbd", 11, Object(&RBD_VOLUME_SOURCE)).within(&[2]),
        when_set("flexVolume", 12, Object(&FLEX_VOLUME_SOURCE)).within(&[2]),
        when_set("cinder", 13, Object(&CINDER_VOLUME_SOURCE)).within(&[2]),
        when_set("cephfs", 14, Object(&CEPH_FS_VOLUME_SOURCE)).within(&[2]),
        when_set("flocker", 15, Object(&FLOCKER_VOLUME_SOURCE)).within(&[2]),
        when_set("downwardAPI", 16, Object(&DOWNWARD_API_VOLUME_SOURCE)).within(&[2]),
        when_set("fc", 17, Object(&FC_VOLUME_SOURCE)).within(&[2]),
        when_set("azureFile", 18, Object(&AZURE_FILE_VOLUME_SOURCE)).within(&[2]),
        when_set("configMap", 19, Object(&CONFIG_MAP_VOLUME_SOURCE)).within(&[2]),
        when_set("vsphereVolume", 20, Object(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)).within(&[2]),
        when_set("quobyte", 21, Object(&QUOBYTE_VOLUME_SOURCE)).within(&[2]),
        when_set("azureDisk", 22, Object(&AZURE_DISK_VOLUME_SOURCE)).within(&[2]),
        when_set("photonPersistentDisk", 23, Object(&PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)).within(&[2]),
        when_set("projected", 26, Object(&PROJECTED_VOLUME_SOURCE)).within(&[2]),
        when_set("portworxVolume", 24, Object(&PORTWORX_VOLUME_SOURCE)).within(&[2]),
        when_set("scaleIO", 25, Object(&SCALE_IO_VOLUME_SOURCE)).within(&[2]),
        when_set("storageos", 27, Object(&STORAGE_OS_VOLUME_SOURCE)).within(&[2]),
        when_set("csi", 28, Object(&CSI_VOLUME_SOURCE)).within(&[2]),
        when_set("ephemeral", 29, Object(&EPHEMERAL_VOLUME_SOURCE)).within(&[2]),
        when_set("image", 30, Object(&IMAGE_VOLUME_SOURCE)).within(&[2]),
    }
    HostPathVolumeSource HOST_PATH_VOLUME_SOURCE {
        always("path", 1, Text),
        when_set("type", 2, Text).one_of(values::HOST_PATH_TYPES),
    }
    EmptyDirVolumeSource EMPTY_DIR_VOLUME_SOURCE {
        unless_zero("medium", 1, Text),
        when_set("sizeLimit", 2, Quantity),
    }
    GCEPersistentDiskVolumeSource GCE_PERSISTENT_DISK_VOLUME_SOURCE {
        always("pdName", 1, Text),
        unless_zero("fsType", 2, Text),
        unless_zero("partition", 3, Int32),
        unless_zero("readOnly", 4, Bool),
    }
    AWSElasticBlockStoreVolumeSource AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE {
        always("volumeID", 1, Text),
        unless_zero("fsType", 2, Text),
        unless_zero("partition", 3, Int32),
        unless_zero("readOnly", 4, Bool),
    }
    GitRepoVolumeSource GIT_REPO_VOLUME_SOURCE {
        always("repository", 1, Text),
        unless_zero("revision", 2, Text),
        unless_zero("directory", 3, Text),
    }
    SecretVolumeSource SECRET_VOLUME_SOURCE {
        unless_zero("secretName", 1, Text),
        unless_zero("items", 2, List(&Object(&KEY_TO_PATH))),
        when_set("defaultMode", 3, Int32),
        when_set("optional", 4, Bool),
    }
    NFSVolumeSource NFS_VOLUME_SOURCE {
        always("server", 1, Text),
        always("path", 2, Text),
        unless_zero("readOnly", 3, Bool),
    }
    ISCSIVolumeSource ISCSI_VOLUME_SOURCE {
        always("targetPortal", 1, Text),
        always("iqn", 2, Text),
        always("lun", 3, Int32),
        unless_zero("iscsiInterface", 4, Text),
        unless_zero("fsType", 5, Text),
        unless_zero("readOnly", 6, Bool),
        unless_zero("portals", 7, List(&Text)),
        unless_zero("chapAuthDiscovery", 8, Bool),
        unless_zero("chapAuthSession", 11, Bool),
        when_set("secretRef", 10, Object(&LOCAL_OBJECT_REFERENCE)),
        when_set("initiatorName", 12, Text),
    }
    GlusterfsVolumeSource GLUSTERFS_VOLUME_SOURCE {
        always("endpoints", 1, Text),
        always("path", 2, Text),
        unless_zero("readOnly", 3, Bool),
    }
    PersistentVolumeClaimVolumeSource PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE {
        always("claimName", 1, Text),
        unless_zero("readOnly", 2, Bool),
    }
    RBDVolumeSource RBD_VOLUME_SOURCE {
        always("monitors", 1, List(&Text)),
        always("image", 2, Text),
        unless_zero("fsType", 3, Text),
        unless_zero("pool", 4, Text),
        unless_zero("user", 5, Text),
        unless_zero("keyring", 6, Text),
        when_set("secretRef", 7, Object(&LOCAL_OBJECT_REFERENCE)),
        unless_zero("readOnly", 8, Bool),
    }
    FlexVolumeSource FLEX_VOLUME_SOURCE {
        always("driver", 1, Text),
        unless_zero("fsType", 2, Text),
        when_set("secretRef", 3, Object(&LOCAL_OBJECT_REFERENCE)),
        unless_zero("readOnly", 4, Bool),
        unless_zero("options", 5, Map(&Text)),
    }
    CinderVolumeSource CINDER_VOLUME_SOURCE {
        always("volumeID", 1, Text),
        unless_zero("fsType", 2, Text),
        unless_zero("readOnly", 3, Bool),
        when_set("secretRef", 4, Object(&LOCAL_OBJECT_REFERENCE)),
    }
    CephFSVolumeSource CEPH_FS_VOLUME_SOURCE {
        always("monitors", 1, List(&Text)),
        unless_zero("path", 2, Text),
        unless_zero("user", 3, Text),
        unless_zero("secretFile", 4, Text),
        when_set("secretRef", 5, Object(&LOCAL_OBJECT_REFERENCE)),
        unless_zero("readOnly", 6, Bool),
    }
    FlockerVolumeSource FLOCKER_VOLUME_SOURCE {
        unless_zero("datasetName", 1, Text),
        unless_zero("datasetUUID", 2, Text),
    }
    DownwardAPIVolumeSource DOWNWARD_API_VOLUME_SOURCE {
        unless_zero("items", 1, List(&Object(&DOWNWARD_API_VOLUME_FILE))),
        when_set("defaultMode", 2, Int32),
    }
    FCVolumeSource FC_VOLUME_SOURCE {
        unless_zero("targetWWNs", 1, List(&Text)),
        when_set("lun", 2, Int32),
        unless_zero("fsType", 3, Text),
        unless_zero("readOnly", 4, Bool),
        unless_zero("wwids", 5, List(&Text)),
    }
    AzureFileVolumeSource AZURE_FILE_VOLUME_SOURCE {
        always("secretName", 1, Text),
        always("shareName", 2, Text),
        unless_zero("readOnly", 3, Bool),
    }
    ConfigMapVolumeSource CONFIG_MAP_VOLUME_SOURCE {
        unless_zero("name", 1, Text).within(&[1]),
        unless_zero("items", 2, List(&Object(&KEY_TO_PATH))),
        when_set("defaultMode", 3, Int32),
        when_set("optional", 4, Bool),
    }
    VsphereVirtualDiskVolumeSource VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE {
        always("volumePath", 1, Text),
        unless_zero("fsType", 2, Text),
        unless_zero("storagePolicyName", 3, Text),
        unless_zero("storagePolicyID", 4, Text),
    }
    QuobyteVolumeSource QUOBYTE_VOLUME_SOURCE {
        always("registry", 1, Text),
        always("volume", 2, Text),
        unless_zero("readOnly", 3, Bool),
        unless_zero("user", 4, Text),
        unless_zero("group", 5, Text),
        unless_zero("tenant", 6, Text),
    }
    AzureDiskVolumeSource AZURE_DISK_VOLUME_SOURCE {
        always("diskName", 1, Text),
        always("diskURI", 2, Text),
        when_set("cachingMode", 3, Text).one_of(values::AZURE_CACHING_MODES),
        when_set("fsType", 4, Text),
        when_set("readOnly", 5, Bool),
        when_set("kind", 6, Text).one_of(values::AZURE_DISK_KINDS),
    }
    PhotonPersistentDiskVolumeSource PHOTON_PERSISTENT_DISK_VOLUME_SOURCE {
        always("pdID", 1, Text),
        unless_zero("fsType", 2, Text),
    }
    ProjectedVolumeSource PROJECTED_VOLUME_SOURCE {
        always("sources", 1, List(&Object(&VOLUME_PROJECTION))).optional(),
        when_set("defaultMode", 2, Int32),
    }
    PortworxVolumeSource PORTWORX_VOLUME_SOURCE {
        always("volumeID", 1, Text),
        unless_zero("fsType", 2, Text),
        unless_zero("readOnly", 3, Bool),
    }
    ScaleIOVolumeSource SCALE_IO_VOLUME_SOURCE {
        always("gateway", 1, Text),
        always("system", 2, Text),
        or_null("secretRef", 3, Object(&LOCAL_OBJECT_REFERENCE)).required(),
        unless_zero("sslEnabled", 4, Bool),
        unless_zero("protectionDomain", 5, Text),
        unless_zero("storagePool", 6, Text),
        unless_zero("storageMode", 7, Text),
        unless_zero("volumeName", 8, Text),
        unless_zero("fsType", 9, Text),
        unless_zero("readOnly", 10, Bool),
    }
    StorageOSVolumeSource STORAGE_OS_VOLUME_SOURCE {
        unless_zero("volumeName", 1, Text),
        unless_zero("volumeNamespace", 2, Text),
        unless_zero("fsType", 3, Text),
        unless_zero("readOnly", 4, Bool),
        when_set("secretRef", 5, Object(&LOCAL_OBJECT_REFERENCE)),
    }
    CSIVolumeSource CSI_VOLUME_SOURCE {
        always("driver", 1, Text),
        when_set("readOnly", 2, Bool),
        when_set("fsType", 3, Text),
        unless_zero("volumeAttributes", 4, Map(&Text)),
        when_set("nodePublishSecretRef", 5, Object(&LOCAL_OBJECT_REFERENCE)),
    }
    EphemeralVolumeSource EPHEMERAL_VOLUME_SOURCE {
        when_set("volumeClaimTemplate", 1, Object(&PERSISTENT_VOLUME_CLAIM_TEMPLATE)),
    }
    ImageVolumeSource IMAGE_VOLUME_SOURCE {
        unless_zero("reference", 1, Text),
        unless_zero("pullPolicy", 2, Text).one_of(values::PULL_POLICIES),
    }
    KeyToPath KEY_TO_PATH {
        always("key", 1, Text),
        always("path", 2, Text),
        when_set("mode", 3, Int32),
    }
    DownwardAPIVolumeFile DOWNWARD_API_VOLUME_FILE {
        always("path", 1, Text),
        when_set("fieldRef", 2, Object(&OBJECT_FIELD_SELECTOR)),
        when_set("resourceFieldRef", 3, Object(&RESOURCE_FIELD_SELECTOR)),
        when_set("mode", 4, Int32),
    }
    VolumeProjection VOLUME_PROJECTION {
        when_set("secret", 1, Object(&SECRET_PROJECTION)),
        when_set("downwardAPI", 2, Object(&DOWNWARD_API_PROJECTION)),
        when_set("configMap", 3, Object(&CONFIG_MAP_PROJECTION)),
        when_set("serviceAccountToken", 4, Object(&SERVICE_ACCOUNT_TOKEN_PROJECTION)),
        when_set("clusterTrustBundle", 5, Object(&CLUSTER_TRUST_BUNDLE_PROJECTION)),
        when_set("podCertificate", 6, Object(&POD_CERTIFICATE_PROJECTION)),
    }
    SecretProjection SECRET_PROJECTION {
        unless_zero("name", 1, Text).within(&[1]),
        unless_zero("items", 2, List(&Object(&KEY_TO_PATH))),
        when_set("optional", 4, Bool),
    }
    DownwardAPIProjection DOWNWARD_API_PROJECTION {
        unless_zero("items", 1, List(&Object(&DOWNWARD_API_VOLUME_FILE))),
    }
    ConfigMapProjection CONFIG_MAP_PROJECTION {
        unless_zero("name", 1, Text).within(&[1]),
        unless_zero("items", 2, List(&Object(&KEY_TO_PATH))),
        when_set("optional", 4, Bool),
    }
    ServiceAccountTokenProjection SERVICE_ACCOUNT_TOKEN_PROJECTION {
        unless_zero("audience", 1, Text),
        when_set("expirationSeconds", 2, Int64),
        always("path", 3, Text),
    }
    ClusterTrustBundleProjection CLUSTER_TRUST_BUNDLE_PROJECTION {
        when_set("name", 1, Text),
        when_set("signerName", 2, Text),
        when_set("labelSelector", 3, Object(&LABEL_SELECTOR)),
        when_set("optional", 5, Bool),
        always("path", 4, Text),
    }
    PodCertificateProjection POD_CERTIFICATE_PROJECTION {
        unless_zero("signerName", 1, Text).required(),
        unless_zero("keyType", 2, Text).required(),
        when_set("maxExpirationSeconds", 3, Int32),
        unless_zero("credentialBundlePath", 4, Text),
        unless_zero("keyPath", 5, Text),
        unless_zero("certificateChainPath", 6, Text),
        unless_zero("userAnnotations", 7, Map(&Text)),
    }
}
