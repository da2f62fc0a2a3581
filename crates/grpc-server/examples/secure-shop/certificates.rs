//! Certificates of the shop: a private authority, and a certificate for each service, whose name is a SPIFFE ID.
//!
//! In production, cert-manager or SPIRE does this; its files go to the same places.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};

/// The members of the mesh, each with a folder for its files.
const MEMBERS: [&str; 3] = ["customer", "shop", "payment"];
/// A client with a certificate of another authority, which claims to be the customer.
const STRANGER: &str = "stranger";
/// Lifetime of a certificate, from now. Clocks of other machines may be slow.
const VALID: Duration = Duration::from_secs(60 * 60);
const LATE_CLOCKS: Duration = Duration::from_secs(60);

/// Files of the certificates.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

/// A certificate authority. Its key is never written.
struct Authority {
    name: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The replacement of an authority by its successor, in steps after which every member can talk to every other.
pub(crate) struct Rotation {
    folder: Folder,
    successor: Authority,
    generation: u32,
}

impl Folder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Makes an authority, and the files of all members and of the stranger.
    pub(crate) fn create(&self) -> Result<(), Box<dyn Error>> {
        let authority = Authority::new("authority 1")?;
        for member in MEMBERS {
            self.write(member, "ca.pem", &authority.issuer.pem())?;
            let (certificate, key) = authority.issue(member)?;
            self.write_identity(member, &certificate, &key)?;
        }
        // The stranger trusts the authority of the others, so that they end the handshake, and not the stranger.
        self.write(STRANGER, "ca.pem", &authority.issuer.pem())?;
        let (certificate, key) = Authority::new("authority of strangers")?.issue("customer")?;
        self.write_identity(STRANGER, &certificate, &key)?;
        self.write("", "generation", "1")
    }

    /// Begins to replace the authority.
    pub(crate) fn rotate(&self) -> Result<Rotation, Box<dyn Error>> {
        let generation = std::fs::read_to_string(self.0.join("generation"))?;
        let generation = generation.trim().parse::<u32>()? + 1;
        Ok(Rotation {
            folder: self.clone(),
            successor: Authority::new(&format!("authority {generation}"))?,
            generation,
        })
    }

    /// Replaces a certificate and its key. A process that reads them in between finds that they do not match, and keeps
    /// the old ones.
    fn write_identity(
        &self,
        member: &str,
        certificate: &str,
        key: &str,
    ) -> Result<(), Box<dyn Error>> {
        self.write(member, "key.pem", key)?;
        self.write(member, "cert.pem", certificate)
    }

    /// Writes a file by renaming, so that no process reads a part of it.
    fn write(&self, member: &str, name: &str, text: &str) -> Result<(), Box<dyn Error>> {
        let dir = self.0.join(member);
        std::fs::create_dir_all(&dir)?;
        let new = dir.join(format!("{name}.new"));
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        let mut file = options.mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(new, dir.join(name))?;
        Ok(())
    }
}

impl Rotation {
    /// Adds the new authority to the trusted ones of each member.
    pub(crate) fn trust_both(&self) -> Result<(), Box<dyn Error>> {
        for member in MEMBERS {
            let old = std::fs::read_to_string(self.folder.0.join(member).join("ca.pem"))?;
            let both = old + &self.successor.issuer.pem();
            self.folder.write(member, "ca.pem", &both)?;
        }
        Ok(())
    }

    /// Gives each member a certificate of the new authority.
    pub(crate) fn issue(&self) -> Result<(), Box<dyn Error>> {
        for member in MEMBERS {
            let (certificate, key) = self.successor.issue(member)?;
            self.folder.write_identity(member, &certificate, &key)?;
        }
        Ok(())
    }

    /// Removes the old authority.
    pub(crate) fn distrust_old(self) -> Result<(), Box<dyn Error>> {
        for member in MEMBERS {
            self.folder
                .write(member, "ca.pem", &self.successor.issuer.pem())?;
        }
        let generation = self.generation.to_string();
        self.folder.write("", "generation", &generation)
    }
}

impl Authority {
    fn new(name: &str) -> Result<Self, Box<dyn Error>> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Self {
            name: name.to_owned(),
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?,
        })
    }

    /// Issues a certificate with the identity of this member, for both directions, because a service may be both server
    /// and
    /// client. The subject is for human readers.
    fn issue(&self, member: &str) -> Result<(String, String), Box<dyn Error>> {
        let identity = format!("spiffe://shop.example/{member}");
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let subject = &mut params.distinguished_name;
        subject.push(DnType::OrganizationName, self.name.as_str());
        subject.push(DnType::CommonName, member);
        params.subject_alt_names = vec![SanType::URI(identity.as_str().try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + (now - LATE_CLOCKS);
        params.not_after = epoch + (now + VALID);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}
