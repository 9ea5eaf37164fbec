# SPDX-License-Identifier: Apache-2.0
"""An installation in a folder of its own: the units name programs that exist."""
import installation
import pytest


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """Its root."""
    folder = tmp_path_factory.mktemp("installed")
    installation.make("install", "", f"PREFIX={folder}/usr", f"SYSCONFDIR={folder}/etc")
    return folder
