"""Members of a tar whose headers hold no more than headers do."""

import tarfile

EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
MOST_BYTES = 2**20  # of a long name or of further attributes, which are read into memory at once


class Member(tarfile.TarInfo):
    """For `tarfile.open(..., tarinfo=Member)`: raises tarfile.ReadError where a header would fill the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "Member":
        """A member of the 512 bytes of its header."""
        member = super().frombuf(buf, encoding, errors)
        if member.type in EXTENDED and not 0 <= member.size <= MOST_BYTES:
            raise tarfile.ReadError(f"a header says that it has {member.size:,} bytes")
        return member
