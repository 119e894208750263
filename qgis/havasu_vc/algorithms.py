"""What the command does, as algorithms: for models, batches and scripts.

Processing runs these in threads of its own, so here a command is waited for; cancelling ends it.
"""

from __future__ import annotations

import os
import subprocess
import threading
from typing import Any

from qgis.core import (
    QgsProcessing,
    QgsProcessingAlgorithm,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingFeedback,
    QgsProcessingOutputString,
    QgsProcessingParameterBoolean,
    QgsProcessingParameterFile,
    QgsProcessingParameterFolderDestination,
    QgsProcessingParameterString,
    QgsProcessingParameterVectorDestination,
)

from . import commands
from .answers import Answer
from .program import clean_environment, find_program
from .settings import Settings
from .words import tr

__all__ = ["ALGORITHMS"]

REPOSITORY, DATASET, REVISION, OUTPUT = "REPOSITORY", "DATASET", "REVISION", "OUTPUT"
WAIT = 0.1
"""Seconds between looks at whether a person cancelled."""
Given = dict[str, Any]


def run_command(arguments: list[str], folder: str, feedback: QgsProcessingFeedback) -> Answer:
    """Run the command, tell what it prints, and end it where it is cancelled."""
    program = find_program(Settings().program)
    if not program:
        raise QgsProcessingException(
            tr("The command havasu-vc is not found; its path is in the settings of the plugin")
        )
    line = [program, *(["-C", folder] if folder else []), "--no-progress", "--no-pager"]
    flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
    try:
        process = subprocess.Popen(
            [*line, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(os.environ),
            creationflags=flags,
        )
    except OSError as error:
        raise QgsProcessingException(tr("{} does not start").format(program)) from error
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.extend(process.communicate()))
    reader.start()
    while reader.is_alive():
        if feedback.isCanceled():
            process.terminate()
        reader.join(WAIT)
    out, err = (part.decode("utf-8", "replace") for part in got)
    answer = Answer(process.returncode, out, err, feedback.isCanceled())
    if (failure := answer.failure()) is not None:
        for hint in failure.hints:
            feedback.pushInfo(hint)
        raise QgsProcessingException(failure.message)
    for text in (answer.out, answer.err):
        if text.strip():
            feedback.pushInfo(text.strip())
    return answer


class Algorithm(QgsProcessingAlgorithm):
    """An algorithm that runs one command in a repository."""

    NAME = ""
    GROUP = "repository"

    def createInstance(self) -> Algorithm:
        """Make another; QGIS runs that one."""
        return type(self)()

    def name(self) -> str:
        """Return the name by which scripts call it."""
        return self.NAME

    def group(self) -> str:
        """Return the title of its group."""
        titles = {
            "repository": tr("Repositories"),
            "data": tr("Datasets"),
            "branch": tr("Branches"),
        }
        return titles[self.GROUP]

    def groupId(self) -> str:
        """Return the name of its group."""
        return self.GROUP

    def ask_repository(self, folder: str = "") -> None:
        """Take the folder of a repository."""
        behavior = QgsProcessingParameterFile.Behavior.Folder
        label = tr("Repository")
        last = folder or Settings().last or None
        parameter = QgsProcessingParameterFile(REPOSITORY, label, behavior, defaultValue=last)
        self.addParameter(parameter)

    def ask_text(
        self, name: str, label: str, default: str | None = None, *, optional: bool = False
    ) -> None:
        """Take a line of text."""
        parameter = QgsProcessingParameterString(name, label, default, optional=optional)
        self.addParameter(parameter)

    def text(self, given: Given, name: str, context: QgsProcessingContext) -> str:
        """Return a line of text that was given."""
        return str(self.parameterAsString(given, name, context) or "").strip()

    def folder(self, given: Given, context: QgsProcessingContext) -> str:
        """Return the repository that was given."""
        return str(self.parameterAsFile(given, REPOSITORY, context))


class Init(Algorithm):
    """Makes a repository."""

    NAME = "init"

    def displayName(self) -> str:
        """Return the title."""
        return tr("Make a repository")

    def shortHelpString(self) -> str:
        """Tell what it does."""
        return tr(
            "Makes a repository in a folder, or prepares the git repository that is there. "
            "Doing it again changes nothing."
        )

    def initAlgorithm(self, configuration: Any = None) -> None:
        """Name what it takes."""
        self.addParameter(QgsProcessingParameterFolderDestination(OUTPUT, tr("Folder")))

    def processAlgorithm(
        self, given: Given, context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> Given:
        """Run it."""
        folder = str(self.parameterAsString(given, OUTPUT, context))
        run_command(commands.init(folder), "", feedback)
        return {OUTPUT: folder}


class Clone(Algorithm):
    """Clones a repository."""

    NAME = "clone"

    def displayName(self) -> str:
        """Return the title."""
        return tr("Clone a repository")

    def shortHelpString(self) -> str:
        """Tell what it does."""
        return tr(
            "Clones a repository with its data from a URL, an address of SSH or a folder, and "
            "makes the GeoPackage that QGIS edits. A clone that was cut off goes on when it is "
            "run again with the same folder."
        )

    def initAlgorithm(self, configuration: Any = None) -> None:
        """Name what it takes."""
        self.ask_text("URL", tr("URL or folder of the repository"))
        self.addParameter(QgsProcessingParameterFolderDestination(OUTPUT, tr("Folder")))

    def processAlgorithm(
        self, given: Given, context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> Given:
        """Run it."""
        folder = str(self.parameterAsString(given, OUTPUT, context))
        file = f"{os.path.basename(folder.rstrip('/'))}.gpkg"
        run_command(commands.clone(self.text(given, "URL", context), folder, file), "", feedback)
        return {OUTPUT: folder}


class Import(Algorithm):
    """Takes a file's layers in."""

    NAME = "import"
    GROUP = "data"

    def displayName(self) -> str:
        """Return the title."""
        return tr("Import a file")

    def shortHelpString(self) -> str:
        """Tell what it does."""
        return tr(
            "Takes layers of a file in as datasets, and commits them: GeoPackage, Shapefile, "
            "GeoJSON, FlatGeobuf, GeoParquet, CSV, GeoTIFF.\n\n"
            "Layer: one layer of the file; all of them if it is empty.\n"
            "Dataset: the name of the dataset, such as parks/benches; as the layer is called if it "
            "is empty.\n"
            "Key columns: the columns that tell rows apart, with commas between; what the file "
            "says if it is empty.\n"
            "Replace: compare with the dataset that is there by key, and commit only what differs: "
            "the way to take in the next release of a published table."
        )

    def initAlgorithm(self, configuration: Any = None) -> None:
        """Name what it takes."""
        self.ask_repository()
        self.addParameter(QgsProcessingParameterFile("SOURCE", tr("File")))
        self.ask_text("LAYER", tr("Layer"), optional=True)
        self.ask_text(DATASET, tr("Dataset"), optional=True)
        self.ask_text("KEY", tr("Key columns"), optional=True)
        self.addParameter(
            QgsProcessingParameterBoolean("REPLACE", tr("Replace datasets that are there"), False)
        )
        self.addOutput(QgsProcessingOutputString("COMMIT", tr("Commit")))

    def processAlgorithm(
        self, given: Given, context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> Given:
        """Run it."""
        arguments = commands.import_file(
            str(self.parameterAsFile(given, "SOURCE", context)),
            *(self.text(given, name, context) for name in ("LAYER", DATASET, "KEY")),
            replace=self.parameterAsBool(given, "REPLACE", context),
        )
        answer = run_command(arguments, self.folder(given, context), feedback)
        told = (answer.json() or {}).get("havasu.import/v1", {})
        return {"COMMIT": told.get("commit") or ""}


class OfDataset(Algorithm):
    """An algorithm that writes rows of a dataset to a file, which QGIS opens."""

    GROUP = "data"

    def ask_output(self, label: str) -> None:
        """Take the file to write."""
        type_ = QgsProcessing.SourceType.TypeVector if _scoped() else QgsProcessing.TypeVector
        self.addParameter(QgsProcessingParameterVectorDestination(OUTPUT, label, type_))

    def output(self, given: Given, context: QgsProcessingContext) -> str:
        """Return the file to write; a layer of the project is made of it."""
        return str(self.parameterAsOutputLayer(given, OUTPUT, context))


def _scoped() -> bool:
    return hasattr(QgsProcessing, "SourceType")


class Checkout(OfDataset):
    """A dataset as it was, as a layer."""

    NAME = "checkout"

    def displayName(self) -> str:
        """Return the title."""
        return tr("A dataset at a revision, as a layer")

    def shortHelpString(self) -> str:
        """Tell what it does."""
        return tr(
            "Writes a dataset as it is at a revision to a file and opens it as a layer. The "
            "repository and its working copy stay as they are.\n\n"
            "Revision: a branch, a tag, a commit, or such as HEAD~3 or main@{yesterday}."
        )

    def initAlgorithm(self, configuration: Any = None) -> None:
        """Name what it takes."""
        self.ask_repository()
        self.ask_text(DATASET, tr("Dataset"))
        self.ask_text(REVISION, tr("Revision"), "HEAD")
        self.ask_output(tr("Dataset at the revision"))

    def processAlgorithm(
        self, given: Given, context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> Given:
        """Run it."""
        file = self.output(given, context)
        dataset, revision = (self.text(given, name, context) for name in (DATASET, REVISION))
        arguments = commands.export(dataset, revision, file)
        run_command(arguments, self.folder(given, context), feedback)
        return {OUTPUT: file}


class Export(Checkout):
    """A dataset to a file of any format that the command writes."""

    NAME = "export"

    def displayName(self) -> str:
        """Return the title."""
        return tr("Export a dataset")

    def shortHelpString(self) -> str:
        """Tell what it does."""
        return tr(
            "Writes the rows of a dataset at a revision to a file; what its name ends in says the "
            "format: .gpkg, .parquet, .shp, .geojson, .geojsonl, .fgb or .csv.\n\n"
            "Reference system: such as EPSG:4326, to transform geometries to; the dataset's own if "
            "it is empty."
        )

    def initAlgorithm(self, configuration: Any = None) -> None:
        """Name what it takes."""
        self.ask_repository()
        self.ask_text(DATASET, tr("Dataset"))
        self.ask_text(REVISION, tr("Revision"), "HEAD")
        self.ask_text("CRS", tr("Reference system"), optional=True)
        self.ask_output(tr("Exported"))

    def processAlgorithm(
        self, given: Given, context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> Given:
        """Run it."""
        file = self.output(given, context)
        dataset, revision, crs = (
            self.text(given, name, context) for name in (DATASET, REVISION, "CRS")
        )
        command, *rest = commands.export(dataset, revision, file)
        arguments = [command, *(["--crs", crs] if crs else []), *rest]
        run_command(arguments, self.folder(given, context), feedback)
        return {OUTPUT: file}


class Diff(OfDataset):
    """The rows that differ between two revisions."""

    NAME = "diff"

    def displayName(self) -> str:
        """Return the title."""
        return tr("Rows that differ between revisions")

    def shortHelpString(self) -> str:
        """Tell what it does."""
        return tr(
            "Writes the rows of a dataset that differ between two revisions to a file, each with "
            "what happened to it, and opens it as a layer.\n\n"
            "First and second revision: branches, tags, commits, or such as HEAD~3."
        )

    def initAlgorithm(self, configuration: Any = None) -> None:
        """Name what it takes."""
        self.ask_repository()
        self.ask_text(DATASET, tr("Dataset"))
        self.ask_text("FIRST", tr("First revision"), "HEAD^")
        self.ask_text("SECOND", tr("Second revision"), "HEAD")
        self.ask_output(tr("Changes"))

    def processAlgorithm(
        self, given: Given, context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> Given:
        """Run it."""
        file = self.output(given, context)
        names = (self.text(given, name, context) for name in (DATASET, "FIRST", "SECOND"))
        arguments = commands.export_changes(*names, file)
        run_command(arguments, self.folder(given, context), feedback)
        return {OUTPUT: file}


class Commit(Algorithm):
    """Commits edits."""

    NAME = "commit"
    GROUP = "data"

    def displayName(self) -> str:
        """Return the title."""
        return tr("Commit edits")

    def shortHelpString(self) -> str:
        """Tell what it does."""
        return tr(
            "Commits what is edited in the working copy. Layers must be saved before.\n\n"
            "Dataset: commit the edits of this dataset alone; all if it is empty."
        )

    def initAlgorithm(self, configuration: Any = None) -> None:
        """Name what it takes."""
        self.ask_repository()
        self.ask_text("MESSAGE", tr("Message"))
        self.ask_text(DATASET, tr("Dataset"), optional=True)
        self.addOutput(QgsProcessingOutputString("COMMIT", tr("Commit")))

    def processAlgorithm(
        self, given: Given, context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> Given:
        """Run it."""
        dataset = self.text(given, DATASET, context)
        arguments = commands.commit(
            self.text(given, "MESSAGE", context), [dataset] if dataset else []
        )
        answer = run_command(arguments, self.folder(given, context), feedback)
        told = (answer.json() or {}).get("kart.commit/v1", {})
        return {"COMMIT": told.get("commit") or ""}


class OfBranch(Algorithm):
    """An algorithm that takes the name of a branch."""

    GROUP = "branch"

    def initAlgorithm(self, configuration: Any = None) -> None:
        """Name what it takes."""
        self.ask_repository()
        self.ask_text("BRANCH", tr("Branch"))
        self.addOutput(QgsProcessingOutputString("COMMIT", tr("Commit")))

    def command(self, branch: str) -> list[str]:
        """Return the command line."""
        raise NotImplementedError

    def processAlgorithm(
        self, given: Given, context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> Given:
        """Run it."""
        folder = self.folder(given, context)
        run_command(self.command(self.text(given, "BRANCH", context)), folder, feedback)
        answer = run_command(commands.STATUS, folder, feedback)
        told = (answer.json() or {}).get("kart.status/v2", {})
        return {"COMMIT": told.get("commit") or ""}


class Switch(OfBranch):
    """Switches to a branch."""

    NAME = "switch"

    def displayName(self) -> str:
        """Return the title."""
        return tr("Switch to a branch")

    def shortHelpString(self) -> str:
        """Tell what it does."""
        return tr(
            "Switches the repository and its working copy to a branch. A branch that only a "
            "remote has is made. Edits that are not committed are never passed over."
        )

    def command(self, branch: str) -> list[str]:
        """Return the command line."""
        return commands.switch(branch)


class Merge(OfBranch):
    """Merges a branch."""

    NAME = "merge"

    def displayName(self) -> str:
        """Return the title."""
        return tr("Merge a branch")

    def shortHelpString(self) -> str:
        """Tell what it does."""
        return tr(
            "Brings the changes of a branch into the current one, row by row and cell by cell. "
            "Where both changed one cell differently, this fails and changes nothing: merge in the "
            "plugin's dock then, which shows conflicts."
        )

    def command(self, branch: str) -> list[str]:
        """Return the command line."""
        return ["merge", "--fail-on-conflict", branch]


ALGORITHMS = (Init, Clone, Import, Export, Checkout, Diff, Commit, Switch, Merge)
"""In the order of a repository's life."""
