"""Fashion-MNIST: 70,000 garments of 28×28 grey values. Sizes and sha256 as in TensorFlow Datasets."""

from whichdevice.models.datasets.images import image_recipe

RECIPE = image_recipe(
    "fashion_mnist",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    sizes=(26421880, 29515, 4422102, 5148),
    sha256=(
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    description="70,000 garments from a shop's catalogue, 28×28 grey values, ten classes",
    citation="Xiao, H., Rasul, K., Vollgraf, R.: Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine "
    "Learning Algorithms. 2017. arXiv:1708.07747",
    licence="MIT, Zalando SE",
    class_names=(
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ),
)  # fmt: skip
