"""Where the names lead that a process uses: it may be in a container, or have another root.

`folder` is that of the process in /proc.
"""

from pathlib import Path


def inside(folder: Path, name: str) -> Path:
    """The file that the process finds under the name."""
    return folder / "root" / name.lstrip("/")


def as_named_inside(folder: Path, name: str) -> str:
    """Of a mapping's name, which has all that the kernel can see from here in it."""
    try:
        root = str((folder / "root").readlink())
    except OSError:
        return name
    return name.removeprefix(root) if name.startswith(f"{root}/") else name


def same_mounts(folder: Path, own: Path = Path("/proc/self")) -> bool | None:
    """Whether it has our mount namespace; None if that cannot be told."""
    try:
        return (folder / "ns/mnt").readlink() == (own / "ns/mnt").readlink()
    except OSError:
        return None


def is_elsewhere(folder: Path) -> bool:
    """Whether the names of its mappings may mean other files here."""
    root = folder / "root"
    try:
        # The root of a process in a chroot has a name here, and so has all that it maps.
        return same_mounts(folder) is False or not root.readlink().samefile(root)
    except OSError:
        return False
